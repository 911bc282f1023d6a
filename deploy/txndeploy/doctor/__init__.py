"""`txnctl doctor`: whether a cluster and its storage are as they should be, and what is safe to mend.

`cluster` judges nodes and groups, `transactions` what has not ended, `storage` the tables' files; `examination` asks
and puts it together, `command` is what an operator calls. None of them decides by age what may be removed.
"""
