"""Training programs: optimizers, clipping, schedules, scalers, averages."""

import copy

import torch
import torch.nn.functional as F
from differential import program
from torch import nn
from torch.optim import swa_utils


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.norm = nn.LayerNorm(4)
        self.last = nn.Linear(4, 2)
        with torch.no_grad():
            for number, each in enumerate(self.parameters()):
                each.copy_(torch.linspace(-1, 1, each.numel()).reshape(each.shape) * (number + 1) / 4)

    def forward(self, x):
        return self.last(F.relu(self.norm(self.first(x))))


X = torch.linspace(-1, 1, 12).reshape(4, 3)


def with_optimizer(make):
    def args():
        model = Net()
        return model, make(model.parameters()), X.clone()

    return args


def step(model, optimizer, x):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), x[:, :2] * 2)
    loss.backward()
    optimizer.step()
    return loss.detach()


@program(with_optimizer(lambda p: torch.optim.SGD(p, lr=0.1)), calls=3, keeps=True)
def sgd(model, optimizer, x):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), x[:, :2] * 2)
    loss.backward()
    optimizer.step()
    return loss.detach()


@program(with_optimizer(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True)), calls=3, keeps=True)
def sgd_with_momentum(model, optimizer, x):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), x[:, :2] * 2)
    loss.backward()
    optimizer.step()
    return loss.detach()


@program(with_optimizer(lambda p: torch.optim.Adam(p, lr=0.1)), calls=3, keeps=True, close=True)
def adam(model, optimizer, x):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), x[:, :2] * 2)
    loss.backward()
    optimizer.step()
    return loss.detach()


@program(with_optimizer(lambda p: torch.optim.AdamW(p, lr=0.1, foreach=True)), calls=3, keeps=True, close=True)
def adamw(model, optimizer, x):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), x[:, :2] * 2)
    loss.backward()
    optimizer.step()
    return loss.detach()


@program(with_optimizer(lambda p: torch.optim.AdamW(p, lr=0.1, fused=True)), calls=3, keeps=True)
def fused_adamw(model, optimizer, x):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), x[:, :2] * 2)
    loss.backward()
    optimizer.step()
    return loss.detach()


@program(with_optimizer(lambda p: torch.optim.RMSprop(p, lr=0.1)), calls=3, keeps=True)
def rmsprop(model, optimizer, x):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), x[:, :2] * 2)
    loss.backward()
    optimizer.step()
    return loss.detach()


@program(with_optimizer(lambda p: torch.optim.Adagrad(p, lr=0.1)), calls=3, keeps=True)
def adagrad(model, optimizer, x):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), x[:, :2] * 2)
    loss.backward()
    optimizer.step()
    return loss.detach()


def with_gradients(make):
    def args():
        model = Net()
        F.mse_loss(model(X), X[:, :2] * 2).backward()
        return model, make(model.parameters()), X.clone()

    return args


@program(with_gradients(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)), calls=4, keeps=True, whole=True)
def step_of_sgd(model, optimizer, x):
    optimizer.step()


@program(with_gradients(lambda p: torch.optim.Adam(p, lr=0.1)), calls=4, keeps=True, whole=True, close=True)
def step_of_adam(model, optimizer, x):
    optimizer.step()


@program(
    with_gradients(lambda p: torch.optim.Adam(p, lr=torch.tensor(0.1), capturable=False)),
    calls=4,
    keeps=True,
    whole=True,
    close=True,
)
def step_of_adam_with_tensor_lr(model, optimizer, x):
    optimizer.step()


@program(with_gradients(lambda p: torch.optim.AdamW(p, lr=0.1)), calls=4, keeps=True, whole=True, close=True)
def changed_learning_rate(model, optimizer, x):
    for group in optimizer.param_groups:
        group["lr"] *= 0.5
    optimizer.step()


@program(with_optimizer(lambda p: torch.optim.SGD(p, lr=0.1)), calls=3, keeps=True)
def clipped(model, optimizer, x):
    optimizer.zero_grad(set_to_none=True)
    loss = F.mse_loss(model(x), x[:, :2] * 2)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    nn.utils.clip_grad_value_(model.parameters(), 0.01)
    optimizer.step()
    return loss.detach(), norm


def scheduled_args():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5), X.clone()


@program(scheduled_args, calls=5, keeps=True)
def scheduled(model, optimizer, schedule, x):
    loss = step(model, optimizer, x)
    schedule.step()
    return loss, schedule.get_last_lr()


def scaled_args():
    model = Net()
    return model, torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu"), X.clone()


@program(scaled_args, calls=3, keeps=True, durable=False)  # the scaler knows its optimizers by address
def scaled(model, optimizer, scaler, x):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = F.mse_loss(model(x), x[:, :2])
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    return loss.detach(), scaler.get_scale()


def averaged_args():
    model = Net()
    return model, copy.deepcopy(model), X.clone()


@program(averaged_args, calls=3, keeps=True, whole=True)
def moving_average(model, average, x):
    with torch.no_grad():
        for kept, each in zip(average.parameters(), model.parameters(), strict=True):
            kept.mul_(0.9).add_(each, alpha=0.1)
    return average(x)


def swa_args():
    model = Net()
    return model, swa_utils.AveragedModel(model), X.clone()


@program(swa_args, calls=3, keeps=True)
def averaged_model(model, average, x):
    average.update_parameters(model)
    return average(x)


@program(with_optimizer(lambda p: torch.optim.SGD(p, lr=0.1)), calls=2, keeps=True)
def accumulating(model, optimizer, x):
    for part in x.split(2):
        (F.mse_loss(model(part), part[:, :2]) / 2).backward()
    optimizer.step()
    optimizer.zero_grad()
    return x.sum()


@program(with_optimizer(lambda p: torch.optim.Adam(p, lr=0.1)), calls=2, keeps=True, close=True)
def epochs(model, optimizer, x):
    losses = []
    for _ in range(3):
        losses.append(step(model, optimizer, x).item())
    return losses


RATE = {"lr": 0.1}
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, **RATE, momentum=0.9, dampening=0.1, weight_decay=0.1, maximize=True),
    "adam": lambda p: torch.optim.Adam(p, **RATE, amsgrad=True, foreach=False),
    "adamw": lambda p: torch.optim.AdamW(p, **RATE, foreach=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, **RATE, lr_decay=0.1),
    "rmsprop": lambda p: torch.optim.RMSprop(p, **RATE, centered=True, momentum=0.9),
    "adadelta": lambda p: torch.optim.Adadelta(p, **RATE, foreach=True),
    "adamax": lambda p: torch.optim.Adamax(p, **RATE, foreach=True),
    "nadam": lambda p: torch.optim.NAdam(p, **RATE, decoupled_weight_decay=True),
    "rprop": lambda p: torch.optim.Rprop(p, **RATE),
    "radam": lambda p: torch.optim.RAdam(p, **RATE),
    "asgd": lambda p: torch.optim.ASGD(p, **RATE, foreach=True),
}


def of_each(declare):
    """A program for each optimizer, under its name."""
    for name, make in OPTIMIZERS.items():

        def f(model, optimizer, x):
            for group in optimizer.param_groups:
                group["lr"] *= 0.9
            optimizer.step()

        f.__name__ = f.__qualname__ = f"each_{name}"
        f.__code__ = f.__code__.replace(co_name=f.__name__, co_qualname=f.__name__)
        globals()[f.__name__] = declare(name, make)(f)


of_each(
    lambda name, make: program(
        with_gradients(make), calls=5, keeps=True, close=True, whole=name not in ("radam", "asgd")
    )
)


@program(with_optimizer(lambda p: torch.optim.LBFGS(p, lr=0.1, max_iter=2)), keeps=True, close=True)
def lbfgs(model, optimizer, x):
    def closure():
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), x[:, :2] * 2)
        loss.backward()
        return loss

    return optimizer.step(closure).detach()


def averaging_args():
    model = Net()
    make = swa_utils.get_ema_multi_avg_fn, swa_utils.get_ema_avg_fn
    averages = [
        swa_utils.AveragedModel(model, multi_avg_fn=make[0](0.9)),
        swa_utils.AveragedModel(model, avg_fn=make[1](0.9)),
    ]
    return model, averages, X.clone()


@program(averaging_args, calls=3, keeps=True, close=True)
def exponential_averages(model, averages, x):
    with torch.no_grad():
        for each in model.parameters():
            each.add_(0.1)
    for average in averages:
        average.update_parameters(model)
    return [average(x) for average in averages]


SCHEDULERS = torch.optim.lr_scheduler


def in_sequence(optimizer):
    first, rest = SCHEDULERS.ConstantLR(optimizer, 0.1, 2), SCHEDULERS.CosineAnnealingLR(optimizer, 5)
    return SCHEDULERS.SequentialLR(optimizer, [first, rest], [2])


def in_sequence_args():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return model, optimizer, in_sequence(optimizer), X.clone()


@program(in_sequence_args, calls=6, keeps=True, close=True)
def schedules_in_sequence(model, optimizer, schedule, x):
    loss = step(model, optimizer, x)
    schedule.step()
    return loss, schedule.get_last_lr()


@program(with_optimizer(lambda p: torch.optim.Adam(p, lr=0.1)), calls=3, keeps=True, close=True)
def states_are_kept(model, optimizer, x):
    loss = step(model, optimizer, x)
    kept = copy.deepcopy(optimizer.state_dict()), copy.deepcopy(model.state_dict())
    step(model, optimizer, x)
    optimizer.load_state_dict(kept[0])
    model.load_state_dict(kept[1])
    return loss, len(kept[0]["state"])


@program(with_optimizer(lambda p: torch.optim.SGD(p, lr=0.1)), calls=3, keeps=True, graphs=True)
def clipped_in_every_way(model, optimizer, x):
    optimizer.zero_grad()
    F.mse_loss(model(x), x[:, :2] * 2).backward()
    one = nn.utils.clip_grad_norm_(model.parameters(), 0.1, foreach=True)
    two = nn.utils.clip_grad_norm_(model.parameters(), 0.1, norm_type=float("inf"), foreach=False)
    nn.utils.clip_grads_with_norm_(model.parameters(), 1.0, one)
    return one, two, nn.utils.get_total_norm([each.grad for each in model.parameters()])


def stepped(model, optimizer, x):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
    return x + 1


@program(with_optimizer(lambda p: torch.optim.RAdam(p, lr=0.1)), calls=7, keeps=True, close=True)
def radam(model, optimizer, x):
    return stepped(model, optimizer, x)


@program(with_optimizer(lambda p: torch.optim.RAdam(p, lr=0.1, foreach=True)), calls=7, keeps=True, close=True)
def radam_over_lists(model, optimizer, x):
    return stepped(model, optimizer, x)


@program(with_optimizer(lambda p: torch.optim.ASGD(p, lr=0.1, t0=2)), calls=4, keeps=True, close=True)
def asgd(model, optimizer, x):
    return stepped(model, optimizer, x)
