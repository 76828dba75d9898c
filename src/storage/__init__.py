"""Content-addressed cache, declared versions, and the results folder of a job."""
