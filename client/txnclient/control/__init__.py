"""Control statements of SQL: they begin, end and show transactions, and ask for locks and compactions."""
