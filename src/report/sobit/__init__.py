"""What So-B-IT found: which groups' faces an encoder associates with loaded words (Hamidieh et al.).

The words are probes, not claims. No face is shown.
"""
