"""Test the study of embedding association tests."""
