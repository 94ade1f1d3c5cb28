// The parts of an agent without the Agent, over one scripted backend: each is tested by itself.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include <towpath/agent/peer_book.h>
#include <towpath/agent/registrations.h>
#include <towpath/agent/testing/scripted_backend.h>
#include <towpath/memory/system_region.h>
#include <towpath/sys/clock.h>

namespace towpath::agent {

struct AgentParts {
  AgentParts(const std::string& name, Script& script, std::uint64_t incarnation = 1) {
    EXPECT_TRUE(registry.add(scripted_type("scripted", script)).ok());
    context = std::make_unique<AgentContext>(
        AgentOptions{.name = name, .registry = &registry, .clock = &clock, .inbox_messages = 2},
        AgentIdentity{name, incarnation});
    backends = std::make_unique<BackendSet>(*context);
    engine = *ProgressEngine::open(*context, *backends);
    registrations = std::make_unique<Registrations>(*context, *backends, *engine);
    peers = std::make_unique<PeerBook>(*context, *backends, *engine);
    auto instance = *backends->make("scripted", {}, *engine);
    registrations->advertise(*instance);
    backends->publish(std::move(instance));
    registrations->note_published();
  }
  ~AgentParts() {
    context->closed = true;
    registrations->drop_memory(1);
    peers->close(1);
  }

  memory::Registration add(const memory::SharedRegion& region) {
    memory::SharedRegion given = region;
    auto made = registrations->add(std::span(&given, 1), {});
    EXPECT_TRUE(made.ok()) << made.status().to_string();
    return std::move(made->front());
  }

  sys::SystemClock clock;
  backend::Registry registry;
  std::unique_ptr<AgentContext> context;
  std::unique_ptr<BackendSet> backends;
  std::unique_ptr<ProgressEngine> engine;
  std::unique_ptr<Registrations> registrations;
  std::unique_ptr<PeerBook> peers;
};

inline Descriptor extent_of(const memory::SharedRegion& region) {
  return {region->descriptor().address, region->descriptor().length, 0};
}

}  // namespace towpath::agent
