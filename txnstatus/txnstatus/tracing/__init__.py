"""Traces: what becomes of a transaction, from process to process, as spans of OpenTelemetry. Off as a rule."""
