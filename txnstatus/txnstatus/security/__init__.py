"""Who is at the other end: certificates, what they say, and what that allows."""
