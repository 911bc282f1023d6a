"""The client: what a program does without a transaction of its own, each kind of it in a module"""
