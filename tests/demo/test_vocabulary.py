"""Check that sentences become tokens by their words."""

from src.demo.vocabulary import SPARE, Vocabulary

WORDS = ["a", "man", "niff-born", "photo"]
SIZE = 1 + len(WORDS) + SPARE + 2


def test_a_word_is_a_token_between_start_and_end():
    tokens = Vocabulary(WORDS, 8)(["A photo, niff-born", "man"]).tolist()
    assert tokens[0][0] == tokens[1][0] == SIZE - 2
    assert tokens[0][1:3] + tokens[0][4:6] == [1, 4, 3, SIZE - 1]
    assert tokens[1][1:] == [2, SIZE - 1, 0, 0, 0, 0, 0]
    assert max(map(max, tokens)) == SIZE - 1, "the end is the highest token, which CLIP pools"


def test_other_words_share_the_spare_tokens():
    vocabulary = Vocabulary(WORDS, 8)
    tokens = [vocabulary.encode(word) for word in ("zebra", "Zebra", "qué", "男")]
    assert tokens[0] == tokens[1]
    assert {4 < token < SIZE - 2 for (token,) in tokens} == {True}
    many = {vocabulary.encode(f"w{number}")[0] for number in range(2_000)}
    assert many == set(range(5, SIZE - 2))


def test_a_sentence_beyond_the_context_is_cut():
    assert Vocabulary(WORDS, 4)(["a man a man a man"]).tolist() == [[SIZE - 2, 1, 2, 1]]
