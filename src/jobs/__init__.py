"""Identify, plan, prepare, run and record single jobs."""
