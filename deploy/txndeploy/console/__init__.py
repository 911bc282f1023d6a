"""The console: a page, served by a node, of what goes on in the cluster; and the documents that it shows."""
