"""DELETE, UPDATE and MERGE: which rows of files a statement hits, and what comes in their place."""
