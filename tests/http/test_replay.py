"""The ids of earlier replies, used again when a later turn names them."""
import types

import pytest

from test_ffwd import cached, chat, extra, user

FEW = 3  # so many ids at the end of what is kept are fed again rather than copied
QUESTION = user("Tell me a story about a lighthouse, a whale and a clock that runs backwards.")


def first_turn(server, seed, salt, **more):
    return chat(server, [QUESTION], max_tokens=40, temperature=1.6, seed=seed, ignore_eos=True, cache_salt=salt, **more)


def next_turn(server, reply, salt, message_id=None, **more):
    said = {"role": "assistant", "content": reply.choices[0].message.content}
    if message_id:
        said["id"] = message_id
    return chat(server, [QUESTION, said, user("Go on.")], max_tokens=4, cache_salt=salt, **more)


def split_differently(server):
    """First turns whose text, encoded again, is not split as it was generated: with the count for a plain next turn."""
    found = []
    for seed in range(40):
        salt = f"replay-{seed}"
        reply = first_turn(server, seed, salt, prompt_cache_key=f"key-{seed}", ffwd={"session": f"session-{seed}"})
        if "\ufffd" in reply.choices[0].message.content:
            continue
        fed = reply.usage.total_tokens - 1
        # in a namespace of its own, so that nothing of it is kept for the turns below
        plain = next_turn(server, reply, salt + "-other")
        if plain.usage.prompt_tokens != next_turn(server, reply, salt, reply.choices[0].message.id).usage.prompt_tokens:
            found.append((reply, salt, seed, fed))
        if len(found) == 2:
            break
    return found


@pytest.fixture(scope="module")
def turns(server):
    found = split_differently(server)
    assert len(found) == 2, "no text is split in two ways"
    return found


@pytest.mark.parametrize("name", ["message", "key", "session"])
def test_the_second_turn_is_served_from_the_first_ones_ids(server, turns, name):
    for reply, salt, seed, fed in turns:
        how = {"message": {"message_id": reply.choices[0].message.id},
               "key": {"prompt_cache_key": f"key-{seed}"},
               "session": {"ffwd": {"session": f"session-{seed}"}}}[name]
        r = next_turn(server, reply, salt, **how)
        assert extra(r)["replayed_ids"] == reply.usage.completion_tokens
        assert cached(r) >= fed - FEW


def test_without_a_name_the_text_is_encoded_as_always(server, turns):
    for reply, salt, seed, _ in turns:
        other = next_turn(server, reply, salt, prompt_cache_key="another")
        assert extra(other)["replayed_ids"] == 0
        assert next_turn(server, reply, salt + "-other", prompt_cache_key=f"key-{seed}").usage.prompt_tokens \
            == other.usage.prompt_tokens
        assert extra(next_turn(server, reply, salt + "-other", prompt_cache_key=f"key-{seed}"))["replayed_ids"] == 0


def test_a_text_that_was_changed_is_replayed_up_to_the_change(server, turns):
    for reply, salt, _, _ in turns:
        text = reply.choices[0].message.content
        said = {"role": "assistant", "id": reply.choices[0].message.id, "content": text[:len(text) // 2] + " and then nothing."}
        r = chat(server, [QUESTION, said, user("Go on.")], max_tokens=4, cache_salt=salt)
        assert 0 < extra(r)["replayed_ids"] < reply.usage.completion_tokens


def test_ids_add_up_over_turns(server):
    """A client that appends what it got names every earlier reply by itself; also in a stream."""
    messages, made, before = [QUESTION], 0, 0
    for turn in range(3):
        stream = chat(server, messages, max_tokens=30, temperature=1.6, seed=turn, ignore_eos=True, cache_salt="turns",
                      stream=True, stream_options={"include_usage": True})
        said, usage = {"role": "assistant", "content": ""}, None
        for chunk in stream:
            usage = chunk.usage or usage
            for choice in chunk.choices:
                said["content"] += choice.delta.content or ""
                said["id"] = (choice.delta.model_extra or {}).get("id") or said.get("id")
        assert said["id"].startswith("msg_")
        if "\ufffd" not in "".join(m["content"] for m in messages):
            assert usage.model_extra["ffwd"]["replayed_ids"] == made
            assert usage.prompt_tokens_details.cached_tokens >= before - FEW
        made += usage.completion_tokens
        before = usage.total_tokens - 1
        messages += [said, user("Go on.")]


def test_the_same_reply_with_and_without_replay(server):
    """Greedy, where both splits agree, the reply is the same: replay is no other prompt."""
    first = chat(server, [QUESTION], max_tokens=30, cache_salt="same")
    [with_id, without] = [next_turn(server, first, "same", message_id=i) for i in (first.choices[0].message.id, None)]
    assert extra(with_id)["replayed_ids"] > 0 and extra(without)["replayed_ids"] == 0
    assert with_id.choices[0].message.content == without.choices[0].message.content


def test_nobody_finds_the_replies_of_another_key(server, turns):
    """Ids that somebody else's request gave never stand for the ids of a prompt."""
    other = types.SimpleNamespace(client=server.client.with_options(api_key="mallory"))
    for reply, salt, seed, _ in turns:
        named = {"message_id": reply.choices[0].message.id, "prompt_cache_key": f"key-{seed}",
                 "ffwd": {"session": f"session-{seed}"}}
        assert extra(next_turn(other, reply, salt, **named))["replayed_ids"] == 0
        assert extra(next_turn(server, reply, salt, **named))["replayed_ids"] > 0
