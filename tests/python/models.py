"""Small ONNX models, built in memory, that the tests run."""

from collections.abc import Sequence

import onnx
from onnx import TensorProto, ValueInfoProto, helper

FLOAT = TensorProto.FLOAT
Shape = Sequence[int | str | None] | None


def info(name: str, shape: Shape = (None,), element_type: int = FLOAT) -> ValueInfoProto:
    """A graph input or output; a shape of None leaves the rank open."""
    return helper.make_tensor_value_info(name, element_type, shape)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[ValueInfoProto],
    outputs: Sequence[ValueInfoProto],
    initializers: Sequence[TensorProto] = (),
) -> bytes:
    """The serialised model of one graph, with the default and the machine-learning operators."""
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), list(initializers))
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=11).SerializeToString()


def unary(op: str, shape: Shape = (None,), element_type: int = FLOAT, **attributes: int) -> bytes:
    """y = op(x)."""
    return model(
        [helper.make_node(op, ["x"], ["y"], **attributes)],
        [info("x", shape, element_type)],
        [info("y", shape, attributes.get("to", element_type))],
    )


def passthrough(element_type: int, shape: Shape = (None,)) -> bytes:
    """A graph without nodes, whose output is its input: it needs no kernel for the type."""
    return model([], [info("x", shape, element_type)], [info("x", shape, element_type)])


def subtract(shape: Shape = (None,)) -> bytes:
    """difference = left - right."""
    return model(
        [helper.make_node("Sub", ["left", "right"], ["difference"])],
        [info("left", shape), info("right", shape)],
        [info("difference", shape)],
    )


def difference_and_total(shape: Shape = ("n", 3)) -> bytes:
    """difference = left - right, total = left + right."""
    return model(
        [
            helper.make_node("Sub", ["left", "right"], ["difference"]),
            helper.make_node("Add", ["left", "right"], ["total"]),
        ],
        [info("left", shape), info("right", shape)],
        [info("difference", shape), info("total", shape)],
    )


def positive(declared: Shape = ("k",)) -> bytes:
    """y = the elements of x that are above 0; y's shape is declared as asked, true or not."""
    zero = helper.make_tensor("zero", FLOAT, [], [0.0])
    return model(
        [
            helper.make_node("Greater", ["x", "zero"], ["above"]),
            helper.make_node("Compress", ["x", "above"], ["y"]),
        ],
        [info("x", ["n"])],
        [info("y", declared)],
        [zero],
    )


def reshaped(declared: Shape) -> bytes:
    """y = x in the shape that the second input says; y's shape is declared as asked."""
    return model(
        [helper.make_node("Reshape", ["x", "shape"], ["y"])],
        [info("x", ["n"]), info("shape", ["rank"], TensorProto.INT64)],
        [info("y", declared)],
    )


def weights_as_outputs(kind: str) -> bytes:
    """y = x * w, and w itself beside it: an initializer or the output of a Constant node."""
    weight = helper.make_tensor("w", FLOAT, [2], [2.0, 3.0])
    nodes = [helper.make_node("Mul", ["x", "w"], ["y"])]
    outputs = [info("y", [2]), info("w", [2])]
    if kind == "constant":
        nodes.insert(0, helper.make_node("Constant", [], ["w"], value=weight))
        return model(nodes, [info("x", [2])], outputs)
    return model(nodes, [info("x", [2])], outputs, [weight])


def without_inputs() -> bytes:
    """c = Constant."""
    value = helper.make_tensor("v", FLOAT, [2], [4.0, 5.0])
    return model([helper.make_node("Constant", [], ["c"], value=value)], [], [info("c", [2])])


def with_other_output(kind: str) -> bytes:
    """y = relu(x), and an output named "other" that is no tensor that PyTorch has."""
    tensor_type = helper.make_tensor_type_proto(FLOAT, [None])
    if kind == "sequence":
        node = helper.make_node("SequenceConstruct", ["x"], ["other"])
        other = helper.make_value_info("other", helper.make_sequence_type_proto(tensor_type))
    elif kind == "optional":
        node = helper.make_node("Optional", ["x"], ["other"])
        other = helper.make_value_info("other", helper.make_optional_type_proto(tensor_type))
    elif kind == "map":
        node = helper.make_node(
            "ZipMap", ["x"], ["other"], domain="ai.onnx.ml", classlabels_int64s=[0, 1]
        )
        other = ValueInfoProto(name="other")
        entry = other.type.sequence_type.elem_type.map_type
        entry.key_type = TensorProto.INT64
        entry.value_type.CopyFrom(helper.make_tensor_type_proto(FLOAT, None))
    else:
        node = helper.make_node("Cast", ["x"], ["other"], to=TensorProto.STRING)
        other = info("other", element_type=TensorProto.STRING)
    return model([helper.make_node("Relu", ["x"], ["y"]), node], [info("x")], [info("y"), other])


def counting_loop() -> bytes:
    """total = start + 1, done as often as the second input says: a run of any length."""
    one = helper.make_tensor("one", FLOAT, [1], [1.0])
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["going"], ["still_going"]),
            helper.make_node("Constant", [], ["one"], value=one),
            helper.make_node("Add", ["sum", "one"], ["next"]),
        ],
        "body",
        [
            info("turn", [], TensorProto.INT64),
            info("going", [], TensorProto.BOOL),
            info("sum", [1]),
        ],
        [info("still_going", [], TensorProto.BOOL), info("next", [1])],
    )
    return model(
        [helper.make_node("Loop", ["turns", "", "start"], ["total"], body=body)],
        [info("start", [1]), info("turns", [], TensorProto.INT64)],
        [info("total", [1])],
    )


def with_adapter_inputs() -> bytes:
    """y = x w + x a b, where a and b are zero unless an adapter gives them."""
    weights = [
        helper.make_tensor("w", FLOAT, [2, 2], [1.0, 2.0, 3.0, 4.0]),
        helper.make_tensor("a", FLOAT, [2, 1], [0.0, 0.0]),
        helper.make_tensor("b", FLOAT, [1, 2], [0.0, 0.0]),
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["base"]),
        helper.make_node("MatMul", ["x", "a"], ["down"]),
        helper.make_node("MatMul", ["down", "b"], ["up"]),
        helper.make_node("Add", ["base", "up"], ["y"]),
    ]
    inputs = [info("x", ["n", 2]), info("a", [2, "rank"]), info("b", ["rank", 2])]
    return model(nodes, inputs, [info("y", ["n", 2])], weights)


def external_weight(location: str = "weight.bin", where: str = "graph", elements: int = 4) -> bytes:
    """y = x + w for some elements; w's are in the file `location`.

    `where`: w is an initializer of the graph, of a subgraph, or the value of a node in a function.
    """
    weight = TensorProto(name="w", data_type=FLOAT, data_location=TensorProto.EXTERNAL)
    weight.dims.append(elements)
    for key, value in (("location", location), ("offset", "0"), ("length", str(4 * elements))):
        weight.external_data.add(key=key, value=value)
    inputs, outputs = [info("x", [elements])], [info("y", [elements])]
    add = helper.make_node("Add", ["x", "w"], ["y"])
    if where == "graph":
        return model([add], inputs, outputs, [weight])
    if where == "subgraph":
        branches = [
            helper.make_graph([add], "then", [], outputs, [weight]),
            helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "else", [], outputs),
        ]
        flag = helper.make_tensor("flag", TensorProto.BOOL, [], [True])
        choose = helper.make_node(
            "If", ["flag"], ["y"], then_branch=branches[0], else_branch=branches[1]
        )
        return model([choose], inputs, outputs, [flag])
    constant = helper.make_node("Constant", [], ["w"])
    constant.attribute.add(name="value", type=onnx.AttributeProto.TENSOR, t=weight)
    function = helper.make_function(
        "here", "Shift", ["x"], ["y"], [constant, add], [helper.make_opsetid("", 21)]
    )
    graph = helper.make_graph(
        [helper.make_node("Shift", ["x"], ["y"], domain="here")], "g", inputs, outputs
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("here", 1)]
    made = helper.make_model(graph, functions=[function], opset_imports=opsets, ir_version=10)
    return made.SerializeToString()


def scaled() -> bytes:
    """y = x * w, where w is an initializer of four elements."""
    weight = helper.make_tensor("w", FLOAT, [4], [1.0, 2.0, 3.0, 4.0])
    return model([helper.make_node("Mul", ["x", "w"], ["y"])], [info("x")], [info("y")], [weight])
