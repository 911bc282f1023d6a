"""What others read our tables by, written when somebody asks for it."""
