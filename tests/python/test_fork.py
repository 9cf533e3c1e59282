"""Sessions in a process that was forked after they were made."""

import pytest
from models import unary
from support import in_new_process

# What the children do; a child that hangs is ended by its alarm. They end as multiprocessing's do:
# at the end of an interpreter, onnxruntime itself waits for a thread that stayed in the parent.
CHILD = f"""
import copy, gc, os, pickle, signal, sys
import onnxruntime, torch
import ortdl_torch
from ortdl_torch import InferenceSession, OnnxModule

MODEL = {unary("Relu")!r}
X = torch.tensor([-1.0, 2.0])

def options(threads, **others):
    made = onnxruntime.SessionOptions()
    made.log_severity_level = 4
    made.intra_op_num_threads = threads
    for name, value in others.items():
        setattr(made, name, value)
    return made

def forked(work):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        signal.alarm(100)
        work()
        sys.stdout.flush()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def refusal(run):
    try:
        return run()
    except RuntimeError as error:
        return all(word in str(error) for word in ("forked", "worker_init_fn", "spawn"))
"""


def test_what_a_child_can_do() -> None:
    done = in_new_process(
        CHILD
        + """
threads, default = [InferenceSession(MODEL, options(n)) for n in (2, 0)]
parallel = InferenceSession(
    MODEL, options(1, execution_mode=onnxruntime.ExecutionMode.ORT_PARALLEL))
alone = InferenceSession(MODEL, options(1))
module = OnnxModule(threads)
for session in (threads, default, parallel, alone):
    session(X)

def work():
    for session in (threads, default, parallel, copy.deepcopy(threads)):
        print(refusal(lambda: session(X)), refusal(lambda: session.run(None, {"x": X})))
    print(refusal(lambda: module(X)))
    print(refusal(lambda: torch.ops.ortdl.run(threads.script_object, [X])))
    print(alone(X)[0].tolist(), ortdl_torch.live_objects()["sessions"])
    again = copy.deepcopy(threads.script_object)
    print(torch.ops.ortdl.run(again, [X])[0].tolist())
    print(pickle.loads(pickle.dumps(threads))(X)[0].tolist())
    print(InferenceSession(MODEL, options(2))(X)[0].tolist(), flush=True)

print(forked(work))
print(threads(X)[0].tolist())
"""
    )
    runs = "[0.0, 2.0]\n"
    wanted = "True True\n" * 4 + "True\n" * 2 + "[0.0, 2.0] 4\n" + runs * 3 + "0\n" + runs
    assert (done.returncode, done.stdout) == (0, wanted), done.stderr


def test_a_child_lets_go_of_sessions() -> None:
    done = in_new_process(
        CHILD
        + """
sessions = {n: InferenceSession(MODEL, options(n)) for n in (1, 2)}
outputs = [session(X)[0] for session in sessions.values()]

def drop():
    sessions.clear()
    gc.collect()
    print(ortdl_torch.live_objects()["sessions"], [y.tolist() for y in outputs], flush=True)

print(forked(drop))
print(forked(lambda: print(forked(drop), flush=True)))  # a grandchild
"""
    )
    wanted = "0 [[0.0, 2.0], [0.0, 2.0]]\n"
    assert (done.returncode, done.stdout) == (0, f"{wanted}0\n{wanted}0\n0\n"), done.stderr


LOADER = f"""
import sys
import onnxruntime, torch
from torch.utils.data import DataLoader
from ortdl_torch import InferenceSession

class Outputs(torch.utils.data.Dataset):
    def __init__(self, threads):
        self.options = onnxruntime.SessionOptions()
        self.options.intra_op_num_threads = threads
        self.session = self.make()
        self.session(torch.ones(2))

    def make(self):
        return InferenceSession({unary("Relu")!r}, self.options)

    def __len__(self):
        return 2

    def __getitem__(self, i):
        return self.session(torch.tensor([-1.0, float(i)]))[0]

def make_anew(worker):
    dataset = torch.utils.data.get_worker_info().dataset
    dataset.session = dataset.make()

def outputs(threads, **options):
    loader = DataLoader(
        Outputs(threads), batch_size=2, num_workers=1, timeout=100,
        multiprocessing_context="fork", **options)
    return [batch.tolist() for batch in loader]
"""


@pytest.mark.parametrize("remedy", ["one thread", "worker_init_fn"])
def test_forked_data_loader_workers(remedy: str) -> None:
    arguments = "1" if remedy == "one thread" else "2, worker_init_fn=make_anew"
    done = in_new_process(f"{LOADER}\nprint(outputs({arguments}))")
    assert (done.returncode, done.stdout) == (0, "[[[0.0, 0.0], [0.0, 1.0]]]\n"), done.stderr


def test_a_forked_worker_says_what_to_do() -> None:
    done = in_new_process(
        LOADER
        + """
try:
    outputs(2)
except RuntimeError as error:
    print("DataLoader worker" in str(error), "worker_init_fn" in str(error), "spawn" in str(error))
"""
    )
    assert (done.returncode, done.stdout) == (0, "True True True\n"), done.stderr
