"""Tables of other formats as they lie somewhere: what files they have, of which schema, with which partition values"""
