"""A step of Adam computed aside against one taken at once."""

import torch

from nextclick.adam import AdamStep


def test_steps_aside_equal_steps_at_once():
    torch.manual_seed(0)
    aside, at_once = (
        [torch.nn.Parameter(torch.ones(3, 2)), torch.nn.Parameter(torch.zeros(4))] for _ in "ab"
    )
    planning, stepping = (torch.optim.Adam(p, lr=0.1, fused=True) for p in (aside, at_once))
    for _ in range(3):
        gradients = [torch.randn(3, 2), torch.randn(4)]
        before = [parameter.detach().clone() for parameter in aside]
        step = AdamStep(planning, gradients)
        for parameter, value in zip(aside, before, strict=True):
            assert torch.equal(parameter, value)
        step.take()
        for parameter, gradient in zip(at_once, gradients, strict=True):
            parameter.grad = gradient
        stepping.step()
        for one, other in zip(aside, at_once, strict=True):
            assert torch.equal(one, other)


def test_a_step_from_other_values():
    weight = torch.nn.Parameter(torch.zeros(2))
    step = AdamStep(torch.optim.Adam([weight], lr=0.5), [torch.ones(2)], [torch.full((2,), 3.0)])
    step.take()
    torch.testing.assert_close(weight.detach(), torch.full((2,), 2.5))
