"""The console, over HTTP and in a browser."""
