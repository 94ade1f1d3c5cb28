// Carrier: what brings the messages of a backend: its name, what it costs, how to get a worker.
// Thread: immutable.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <towpath/backend/capabilities.h>
#include <towpath/backend/registry.h>
#include <towpath/net/messages/message_worker.h>

namespace towpath::backends::messages {

struct Carrier {
  std::string name;     ///< of the backend
  std::string summary;  ///< of the backend, in a line
  std::string path;     ///< as reports name it: "messages over UCX"
  /// Makes of the carrier what parameters ask for; empty: they change nothing. Errors:
  /// invalid_argument.
  std::function<Status(Carrier& carrier, const backend::Params& params)> adapt;
  bool takes_devices =
      false;  ///< only then this side's memory may be one's (net::DeviceStagingBuffer)
  /// A connection carries messages both ways and in order, and who comes is answered over it.
  bool has_connections = false;
  /// Connections to a peer, at most; more than one only of a carrier that has some.
  std::size_t rails = 1;
  /// Connections that peers have begun, at most: a holder of the metadata may begin any number.
  std::size_t most_accepted = 4096;
  backend::Cost cost;
  std::vector<backend::ParamInfo> params;  ///< of the carrier itself
  /// Its messages may have kFrameBytes (frames.h).
  std::function<Result<std::unique_ptr<net::MessageWorker>>(const backend::BackendContext& context,
                                                            net::MessageListener& listener)>
      make_worker;
  std::function<Finding()> probe;
};

Carrier tcp_carrier();
Carrier ucx_carrier();
/// A UCX that was built with CUDA.
Carrier ucx_device_carrier();

}  // namespace towpath::backends::messages
