"""How the parts talk: handlers by method name, behind gRPC, and behind frames of many calls.

A handler is `async def method(request) -> response`; it raises TxnErrors. Which way a call came, it never knows.
"""
