"""Every encoder against one prefix at a time, and against its formula written out."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.utils.rnn import PackedSequence

from nextclick.clicks import ClickLog, Contexts
from nextclick.encoders.packing import Packing
from nextclick.encoders.recurrence import states_of
from nextclick.encoders.registry import build_encoder, encoder_settings, encoders
from nextclick.encoders.training import Runs, representations
from nextclick.errors import BadInputError


def encoder(kind, items=40, **settings):
    torch.manual_seed(3)
    made = build_encoder(encoder_settings({"kind": kind, "embedding": 8, "hidden": 6, **settings}))
    made.items.data = torch.randn(items, 8)
    made.n_items = items
    return made.eval()


def random_log(sessions=30, items=40, seed=0, longest=30):
    generator = np.random.default_rng(seed)
    clicks = [
        (session, int(generator.integers(items)))
        for session in range(sessions)
        for _ in range(generator.integers(1, longest))
    ]
    generator.shuffle(clicks)
    return ClickLog.of([(s, i, float(t)) for t, (s, i) in enumerate(clicks)])


@pytest.mark.parametrize("kind", sorted(encoders()))
def test_whole_sessions_in_one_pass_equal_each_prefix_alone(kind):
    made, transitions = encoder(kind), random_log().transitions()
    assert transitions.contexts.lengths.max() == 20  # longer sessions are there, and cut
    together = representations(made, transitions, batch=50)
    with torch.inference_mode():
        for number, (context, _) in enumerate(transitions):
            alone = made(torch.from_numpy(context)[None])[0, -1]
            torch.testing.assert_close(together[number], alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", sorted(encoders()))
def test_what_comes_after_changes_nothing(kind):
    made = encoder(kind)
    with torch.inference_mode():
        one = made(torch.tensor([[1, 2, 3, 4]]))
        other = made(torch.tensor([[1, 2, 9, 9]]))
    torch.testing.assert_close(one[:, :2], other[:, :2])
    assert not torch.allclose(one[:, 2:], other[:, 2:])


@pytest.mark.parametrize("kind", sorted(encoders()))
def test_the_last_state_alone_is_the_one_among_all(kind):
    made = encoder(kind)
    items, last = torch.randint(0, 40, (5, 7)), torch.tensor([0, 6, 3, 1, 6])
    contexts = Contexts.of([row[: end + 1] for row, end in zip(items, last, strict=True)])
    packing = Packing.of(contexts, torch.device("cpu"))
    embedded = made.items[packing.items].detach()
    with torch.inference_mode():
        among = made(items)[torch.arange(5), last]
        torch.testing.assert_close(made.encode_last(embedded, packing), among)


@pytest.mark.parametrize("lengths", [[1], [3, 1, 20, 1, 3], [2] * 40, [20]])
@pytest.mark.parametrize("hidden", [1, 6, 18])
def test_the_recurrent_layer_equals_torch(lengths, hidden):
    torch.manual_seed(4)
    gru = torch.nn.GRU(5, hidden, batch_first=True)
    gru.bias_hh_l0.data.add_(1)
    contexts = Contexts.of([np.arange(length) for length in lengths])
    packing = Packing.of(contexts, torch.device("cpu"))
    clicks = (3 * torch.randn(sum(lengths), 5)).requires_grad_()
    weights = torch.randn(len(clicks), hidden)
    inputs = [clicks, *gru.parameters()]
    ours = states_of(gru, clicks, packing)
    theirs = gru(PackedSequence(clicks, torch.from_numpy(packing.sizes)))[0].data
    torch.testing.assert_close(ours, theirs)
    for one, other in zip(
        torch.autograd.grad(ours, inputs, weights),
        torch.autograd.grad(theirs, inputs, weights),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12))
def test_packing_keeps_every_click(lengths):
    generator = np.random.default_rng(len(lengths))
    contexts = Contexts.of([generator.integers(100, size=length) for length in lengths])
    packing = Packing.of(contexts, torch.device("cpu"))
    owners, items = packing.owners.numpy(), packing.items.numpy()
    for number, context in enumerate(contexts):
        places = np.flatnonzero(owners == number)
        assert items[places].tolist() == context.tolist()
        assert packing.last[number] == places[-1]
    assert packing.sizes.tolist() == [sum(n > t for n in lengths) for t in range(max(lengths))]


def test_narm_attention_equals_its_formula():
    made = encoder("narm")
    items = torch.tensor([[5, 7, 7, 1]])
    with torch.inference_mode():
        got = made(items)[0]
        states = made.gru(made.items[items])[0][0]
        a1, a2, v = made.now.weight, made.past.weight, made.weight.weight[0]
        for t in range(4):
            local = torch.zeros(6)
            for j in range(t + 1):
                local += (v @ torch.sigmoid(a1 @ states[t] + a2 @ states[j])) * states[j]
            torch.testing.assert_close(got[t], torch.cat([states[t], local]))


@pytest.mark.parametrize("scores", ["inner", "cosine"])
def test_scores(scores):
    made = encoder("gru4rec", scores=scores, scale=5.0)
    state = torch.randn(1, 6)
    with torch.inference_mode():
        got = (made.queries(state) @ made.vectors().T)[0]
        decoded = made.decoder.weight @ state[0]
        for item in range(40):
            vector = made.items[item]
            expected = decoded @ vector
            if scores == "cosine":
                expected = 5.0 * expected / (decoded.norm() * vector.norm())
            torch.testing.assert_close(got[item], expected)


def test_runs_hold_every_transition_once():
    log = random_log(sessions=60)
    transitions = log.transitions()
    runs = Runs.of(transitions)
    seen = []
    for batch in runs.batches(25, np.random.default_rng(1)):
        items, rows, positions, numbers = runs.batch(batch)
        for row, position, number in zip(rows, positions, numbers, strict=True):
            context = transitions.contexts[int(number)]
            assert items[row, : position + 1].tolist() == context.tolist()
        seen += numbers.tolist()
    assert sorted(seen) == list(range(len(transitions)))


def test_an_unknown_encoder_is_named():
    with pytest.raises(BadInputError, match="'transformer'; there are gru4rec, narm"):
        encoder_settings({"kind": "transformer"})
