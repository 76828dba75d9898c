"""One job: its identity, its inputs, what it computes, and what is recorded of it."""
