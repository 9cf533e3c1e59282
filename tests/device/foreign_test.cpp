#include <c10/util/Exception.h>

#include <string>

#include "producer.h"

// Memory that is not PyTorch's: its owner gets it back when every reader is done.
namespace ortdl::test {
namespace {

class ForeignMemoryTest : public DeviceTest {};

// Collects PyTorch's warnings of one thread.
class Warnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override { text += warning.msg(); }

  std::string text;
};

TEST_F(ForeignMemoryTest, HomeWaitsForEachReaderBeforeTheOwnerGetsItBack) {
  Producer producer(1);
  ValuePtr value = producer.lend();
  EXPECT_EQ(value->stream(), default_stream(1));
  const c10::Stream first = new_stream(1);
  const c10::Stream second = new_stream(2);
  value->order_before(first);
  EXPECT_EQ(taken(), (Lines{"exchangeDevice(1)", "record(s1.0)", "block(s1.0 -> s1.1)",
                            "destroyEvent", "uncheckedSetDevice(0)"}));
  value->order_before(second);
  value->order_before(first);
  static_cast<void>(taken());
  value.reset();
  EXPECT_EQ(taken(), (Lines{"exchangeDevice(1)", "record(s1.1)", "block(s1.1 -> s1.0)",
                            "destroyEvent", "uncheckedSetDevice(0)",  //
                            "exchangeDevice(2)", "record(s2.1)", "block(s2.1 -> s1.0)",
                            "destroyEvent", "uncheckedSetDevice(0)",  //
                            "released"}));
}

TEST_F(ForeignMemoryTest, HomeItselfIsNoReader) {
  Producer producer(3);
  const c10::Stream stream = new_stream(3);
  const Using current(stream);
  ValuePtr value = producer.lend();
  EXPECT_EQ(value->stream(), stream);
  const at::Tensor tensor = value->to_tensor();
  value->order_before(stream);
  value.reset();
  EXPECT_EQ(taken(), Lines{});
}

TEST_F(ForeignMemoryTest, AnExternalStreamIsNotTouchedAfterItsOrder) {
  Producer producer(0);
  ValuePtr value = producer.lend();
  const uintptr_t handle = fake::machine().make_external_stream(0);
  value->order_before(stream_of_handle(device(0), handle));
  EXPECT_EQ(taken(), (Lines{"exchangeDevice(0)", "record(s0.0)", "block(s0.0 -> s0.external1)",
                            "destroyEvent", "uncheckedSetDevice(0)"}));
  value->order_before(stream_of_handle(device(0), fake::machine().make_external_stream(0)));
  fake::machine().destroy_external_stream(handle);
  static_cast<void>(taken());
  Warnings warnings;
  const c10::WarningUtils::WarningHandlerGuard handled(&warnings);
  value.reset();
  EXPECT_EQ(taken(), (Lines{"released"})) << "nothing of the stream that is there still";
  EXPECT_EQ(warnings.text, "") << "nothing of the one that is gone";
}

TEST_F(ForeignMemoryTest, TheOwnersNextWorkDoesNotOvertakeAReader) {
  Producer producer(2);
  const c10::Stream reader = new_stream(2);
  ValuePtr value = producer.lend();
  at::Tensor copy;
  {
    const Using current(reader);
    copy = value->to_tensor().clone();
  }
  value.reset();
  auto& machine = fake::machine();
  machine.enqueue(machine.queue(default_stream(2)), [&] { producer.data.assign(4, 9.F); });
  wait_on_host(default_stream(2));
  EXPECT_EQ(producer.data, std::vector<float>(4, 9.F));
  EXPECT_TRUE(at::equal(read_on(reader, copy), at::arange(4, at::kFloat)));
}

TEST_F(ForeignMemoryTest, AnOrderThatFailsMakesNoReader) {
  Producer producer(1);
  ValuePtr value = producer.lend();
  const c10::Stream stream = new_stream(1);
  EXPECT_EQ(fail_each_call([&] {
              // Only failures: the call after the last one is a reader.
              value->order_before(stream);
            }),
            (Lines{"getStreamNativeHandle", "getStreamNativeHandle", "isStreamCapturing",
                   "isStreamCapturing", "exchangeDevice", "record", "block"}));
  Producer other(1);
  ValuePtr unread = other.lend();
  fake::trace().fail("block");
  EXPECT_THROW(unread->order_before(stream), c10::Error);
  EXPECT_EQ(fake::trace().stop_failing(), "block");
  static_cast<void>(taken());
  unread.reset();
  EXPECT_EQ(taken(), (Lines{"released"}));
}

TEST_F(ForeignMemoryTest, TheMemoryGoesBackWithAWarningIfTheReadersCannotBeOrdered) {
  for (const char* kind : {"isStreamCapturing", "exchangeDevice", "record", "block"}) {
    Producer producer(1);
    ValuePtr value = producer.lend();
    value->order_before(new_stream(1));
    static_cast<void>(taken());
    Warnings warnings;
    {
      const c10::WarningUtils::WarningHandlerGuard handled(&warnings);
      fake::trace().fail(kind);
      value.reset();
      EXPECT_EQ(fake::trace().stop_failing(), kind);
    }
    EXPECT_NE(warnings.text.find("given back while"), std::string::npos) << warnings.text;
    EXPECT_NE(warnings.text.find(kind), std::string::npos) << warnings.text;
    EXPECT_EQ(taken().back(), "released");
    EXPECT_EQ(fake::current(), fake::Current{});
    EXPECT_EQ(fake::live_events(), 0);
  }
}

TEST_F(ForeignMemoryTest, OneReaderThatCannotBeOrderedDoesNotHideTheOthers) {
  Producer producer(1);
  ValuePtr value = producer.lend();
  value->order_before(new_stream(1));
  value->order_before(new_stream(1));
  static_cast<void>(taken());
  Warnings warnings;
  const c10::WarningUtils::WarningHandlerGuard handled(&warnings);
  fake::trace().fail("record");
  value.reset();
  EXPECT_EQ(fake::trace().stop_failing(), "record");
  EXPECT_EQ(taken(), (Lines{"exchangeDevice(1)", "uncheckedSetDevice(0)", "exchangeDevice(1)",
                            "record(s1.3)", "block(s1.3 -> s1.0)", "destroyEvent",
                            "uncheckedSetDevice(0)", "released"}));
}

}  // namespace
}  // namespace ortdl::test
