"""How the parts talk: handlers by method name, reached as unary gRPC calls, or many to a frame over one connection.

A handler is `async def method(request) -> response`; it raises TxnErrors. Which way a call came, it never knows.
"""
