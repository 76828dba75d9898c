"""Store content-addressed cache entries, declared versions, and the results folder of a job."""
