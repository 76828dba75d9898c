"""Is what was planted in the built-in world what is measured?"""
