"""Put what lies in src/ and conf/ into the wheel; all else is said in pyproject.toml."""

from setuptools import find_namespace_packages, setup

setup(
    packages=[*find_namespace_packages(include=["src", "src.*"], exclude=["*.__pycache__"]), "src.conf"],
    package_dir={"src.conf": "conf"},
    package_data={"": ["*"], "src.conf": ["**/*.yaml"]},
)
