"""Parts that several studies use."""
