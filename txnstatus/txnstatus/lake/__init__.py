"""The files of tables, wherever they lie: manifests, row changes, locations, storage."""
