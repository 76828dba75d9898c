"""Registries of intrinsic measures and extrinsic outcomes: name -> `module:attribute`."""

INTRINSIC = {
    "sc_eat": "src.studies.propagation.sc_eat:SC_EAT",
    "difference": "src.studies.propagation.cosine_difference:DIFFERENCE",
}
EXTRINSIC = {
    "top_k": "src.studies.propagation.top_k:TOP_K",
    "zero_shot": "src.studies.propagation.nearest_class:NEAREST_CLASS",
}
# Chosen by default. A job of these has the key, columns and names that it had before there was a choice.
FIRST = {"intrinsic": "sc_eat", "extrinsic": "top_k"}
