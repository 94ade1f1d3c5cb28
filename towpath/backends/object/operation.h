// ObjectOperation: one transfer between memory and objects, as requests of a client.
//
//   idle --post()--> planned --> some requests under way, the next one after each answer --> idle
//                        |  cancel(): its requests are dropped, and it is quiesced at once
//
// Invariant: at most as many of its requests wait in the client as can be under way, so that
// operations take turns. Thread: loop.
#pragma once

#include <cstdint>

#include <towpath/backend/backend.h>
#include <towpath/backend/request_progress.h>
#include <towpath/backends/object/asks.h>
#include <towpath/backends/object/plan.h>
#include <towpath/backends/object/reader.h>
#include <towpath/backends/object/writer.h>

namespace towpath::backends::object {

class ObjectOperation final : public backend::Operation {
 public:
  /// What it needs of its backend; all outlive it.
  struct Surroundings {
    Client& client;
    Counters& counters;
    backend::Events& events;
    const telemetry::Log& log;
  };
  explicit ObjectOperation(const Surroundings& around);
  ~ObjectOperation() override;
  ObjectOperation(const ObjectOperation&) = delete;
  ObjectOperation& operator=(const ObjectOperation&) = delete;

  void post(const backend::Request& request) override;
  void cancel() override;

 private:
  Status prepare(const backend::Request& request);
  void step();
  void complete(const backend::Completion& completion);

  const Surroundings around_;
  Asks asks_;
  Plan plan_;
  backend::RequestProgress progress_;
  Reader reader_;
  Writer writer_;
  TransferOp op_ = TransferOp::read;
  bool active_ = false;
};

}  // namespace towpath::backends::object
