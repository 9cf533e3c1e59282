#include <ortdl/empty_sequence.h>
#include <ortdl/type_string.h>
#include <ortdl/wording.h>

#include <string>

namespace ortdl {
namespace {

// ONNX's own numbers of fields and types, in protobuf's wire format.
class MessageBytes {
 public:
  MessageBytes& number(uint64_t field, uint64_t value) {
    put(field << 3U);
    put(value);
    return *this;
  }
  MessageBytes& text(uint64_t field, std::string_view value) {
    put(field << 3U | 2U);
    put(value.size());
    bytes_ += value;
    return *this;
  }
  [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }

 private:
  void put(uint64_t value) {
    for (; value >= 0x80; value >>= 7U) {
      bytes_ += static_cast<char>((value & 0x7F) | 0x80);
    }
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

// ONNX's number of the element type in "seq(tensor(...))".
uint64_t element_number(std::string_view type) {
  const std::string_view item = inner_type(type, "seq");
  if (item == "tensor(string)") {
    return 8;
  }
  const ElementType* element = tensor_element(item);
  TORCH_CHECK_TYPE(element != nullptr, "an empty value can only be a sequence of tensors, not ",
                   with_article(type));
  return static_cast<uint64_t>(element->onnx);
}

std::string model_bytes(std::string_view type) {
  const uint64_t element = element_number(type);
  const MessageBytes attribute = MessageBytes().text(1, "dtype").number(3, element).number(20, 2);
  const MessageBytes node =
      MessageBytes().text(2, "y").text(4, "SequenceEmpty").text(5, attribute.bytes());
  const MessageBytes tensor = MessageBytes().text(1, MessageBytes().number(1, element).bytes());
  const MessageBytes sequence =
      MessageBytes().text(4, MessageBytes().text(1, tensor.bytes()).bytes());
  const MessageBytes output = MessageBytes().text(1, "y").text(2, sequence.bytes());
  const MessageBytes graph =
      MessageBytes().text(1, node.bytes()).text(2, "empty").text(12, output.bytes());
  const MessageBytes opset = MessageBytes().text(1, "").number(2, 11);
  return MessageBytes().number(1, 8).text(7, graph.bytes()).text(8, opset.bytes()).bytes();
}

SessionHandle load(const std::string& model) {
  OrtSessionOptions* created = nullptr;
  check_status(api().CreateSessionOptions(&created));
  const SessionOptionsHandle options(created);
  check_status(api().SetIntraOpNumThreads(created, 1));
  OrtSession* session = nullptr;
  check_status(
      api().CreateSessionFromArray(environment(), model.data(), model.size(), created, &session));
  return SessionHandle(session);
}

}  // namespace

ValuePtr empty_sequence(std::string_view type) {
  const SessionHandle session = load(model_bytes(type));
  const char* name = "y";
  ::OrtValue* value = nullptr;
  check_status(api().Run(session.get(), nullptr, nullptr, nullptr, 0, &name, 1, &value));
  return c10::make_intrusive<Value>(ValueHandle(value));
}

}  // namespace ortdl
