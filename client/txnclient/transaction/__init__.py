"""A transaction, as its program has it: what is written in it, how it begins and ends, and what a failure leaves"""
