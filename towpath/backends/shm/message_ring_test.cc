// MessageRing: records, liars on either side, and sleeping and waking under every order of steps.
#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <towpath/backends/shm/message_ring.h>
#include <towpath/backends/shm/peer_file.h>
#include <towpath/backends/shm/testing/raw_ring.h>
#include <towpath/run/eventually.h>

namespace towpath::backends::shm {
namespace {

struct BothEnds {
  RingSender sender = *RingSender::create();
  RingReceiver receiver = *RingReceiver::attach(::getpid(), sender.file());

  std::optional<std::string> take() {
    const auto record = receiver.peek();
    EXPECT_TRUE(record.ok()) << record.status().to_string();
    if (!record.ok() || !*record) return std::nullopt;
    std::string message((*record)->length, '\0');
    receiver.copy(**record, std::as_writable_bytes(std::span(message)));
    receiver.pop(**record);
    return message;
  }
};

TEST(MessageRingTest, carries_what_fits_in_order_however_it_lies) {
  BothEnds ring;
  EXPECT_TRUE(ring.sender.is_attached());
  std::minstd_rand random(3);
  std::deque<std::string> in_it;
  std::uint64_t refused = 0;
  for (int i = 0; i < 100'000; ++i) {
    if (random() % 2 == 0) {
      std::string message(random() % 3 == 0 ? random() % (kMaxRingMessage + 1) : random() % 40,
                          static_cast<char>('a' + i % 26));
      if (ring.sender.push(as_bytes(message), 0))
        in_it.push_back(std::move(message));
      else
        ++refused;
    } else if (!in_it.empty()) {
      ASSERT_EQ(ring.take(), in_it.front());
      in_it.pop_front();
    } else {
      ASSERT_EQ(ring.take(), std::nullopt);
    }
  }
  EXPECT_GT(refused, 0U);
}

TEST(MessageRingTest, is_full_at_its_size_and_refuses_what_is_long) {
  BothEnds ring;
  EXPECT_FALSE(ring.sender.push(Bytes(kMaxRingMessage + 1), 0));
  std::uint64_t count = 0;
  while (ring.sender.push(Bytes(8), 0)) ++count;
  EXPECT_EQ(count, kRingBytes / 16);
  EXPECT_TRUE(ring.take());
  EXPECT_TRUE(ring.sender.push({}, 0));
  EXPECT_TRUE(ring.sender.push({}, 0));
  EXPECT_FALSE(ring.sender.push({}, 0));
}

TEST(MessageRingTest, each_sleep_is_rung_for_once) {
  BothEnds ring;
  ASSERT_TRUE(ring.sender.push({}, 0));
  EXPECT_FALSE(ring.sender.must_ring()) << "nobody has announced anything";
  EXPECT_FALSE(ring.receiver.announce_sleep()) << "it has not looked";
  EXPECT_TRUE(ring.take());
  EXPECT_FALSE(ring.take());
  EXPECT_TRUE(ring.receiver.announce_sleep());
  EXPECT_FALSE(ring.receiver.has_news());
  ASSERT_TRUE(ring.sender.push({}, 0));
  EXPECT_TRUE(ring.receiver.has_news());
  EXPECT_TRUE(ring.sender.must_ring());
  EXPECT_FALSE(ring.sender.must_ring());
}

// ---- liars

TEST(MessageRingTest, a_sender_that_lies_is_found_and_nothing_outside_is_read) {
  struct Lie {
    std::uint64_t tail;
    RingReceiver::Record record;
  };
  constexpr std::uint32_t kMost = kMaxRingMessage;
  for (const Lie& lie :
       {Lie{kRingBytes + 8, {}}, Lie{UINT64_MAX, {}}, Lie{7, {}}, Lie{1, {}}, Lie{8, {.length = 1}},
        Lie{16, {.length = 9}}, Lie{kRingBytes, {.length = kMost + 1}},
        Lie{kRingBytes, {.length = UINT32_MAX}}}) {
    RawRing raw;
    RingReceiver receiver = *RingReceiver::attach(::getpid(), raw.file());
    raw.put_record(0, lie.record);
    raw.set_word(RawRing::kTailAt, lie.tail);
    EXPECT_EQ(receiver.peek().code(), Code::corrupt) << lie.tail << ", " << lie.record.length;
  }
}

TEST(MessageRingTest, no_bytes_in_a_ring_lead_out_of_it) {
  std::mt19937_64 random(11);
  RawRing raw;
  Bytes into(kMaxRingMessage);
  std::uint64_t copied = 0;
  for (int round = 0; round < 20'000; ++round) {
    RingReceiver receiver = *RingReceiver::attach(::getpid(), raw.file());
    for (int i = 0; i < 8; ++i)
      raw.put_record(
          random() % (kRingBytes - 8),
          {.length = static_cast<std::uint32_t>(random() % (2 * kMaxRingMessage)), .after = 0});
    raw.set_word(RawRing::kTailAt, random() % (kRingBytes + 64));
    for (int i = 0; i < 4096; ++i) {
      const auto record = receiver.peek();
      if (!record.ok() || !*record) break;
      ASSERT_LE((*record)->length, kMaxRingMessage);
      receiver.copy(**record, into);
      receiver.pop(**record);
      ++copied;
      if (random() % 4 == 0) raw.set_word(RawRing::kTailAt, random() % (kRingBytes + 64));
    }
  }
  EXPECT_GT(copied, 1000U) << "all of it was taken for a lie";
}

TEST(MessageRingTest, a_receiver_that_lies_leaves_a_full_ring) {
  RingSender sender = *RingSender::create();
  auto mapped = *PeerMapping::open({.pid = ::getpid(), .file = sender.file(), .writable = true});
  auto* const head = reinterpret_cast<std::atomic<std::uint64_t>*>(mapped->address() + 64);
  int pushed = 0;
  while (sender.push(Bytes(100), 0)) ++pushed;
  ASSERT_GT(pushed, 0);
  for (const std::uint64_t lie : {std::uint64_t{1} << 40, UINT64_MAX, kRingBytes + 8}) {
    head->store(lie);
    EXPECT_FALSE(sender.push(Bytes(100), 0));
  }
}

TEST(MessageRingTest, only_a_sealed_file_that_is_large_enough_is_mapped) {
  const sys::Fd small = *sys::create_sealed_memfd("small", 4096);
  EXPECT_FALSE(RingReceiver::attach(::getpid(), *file_ref(small.get())).ok());
  const sys::Fd open(::memfd_create("open", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(open.get(), RawRing::kTailAt + 64 + kRingBytes), 0);
  EXPECT_FALSE(RingReceiver::attach(::getpid(), *file_ref(open.get())).ok())
      << "who has it may cut it short";
  const RingSender other = *RingSender::create();
  FileRef wrong = other.file();
  ++wrong.inode;
  EXPECT_FALSE(RingReceiver::attach(::getpid(), wrong).ok());
}

// ---- every order of steps, with stores that others see later

/// Two actors in threads, of which one moves at a time. A store waits in its actor's buffer until a
/// turn, its order or an exchange makes it visible, as on the machines that we run on.
class StoreBuffers {
 public:
  class Word {
   public:
    void store(std::uint64_t value, std::memory_order order) {
      current->put(*this, value);
      if (order == std::memory_order_seq_cst && current->keeps_order_) current->flush(self);
    }
    std::uint64_t load(std::memory_order) const { return current->get(*this); }
    std::uint64_t exchange(std::uint64_t value) {
      current->step();
      current->flush(self);
      return std::exchange(value_, value);
    }
    std::uint64_t value_ = 0;
  };
  using Pick = std::function<std::size_t(std::size_t)>;

  StoreBuffers(Pick pick, bool keeps_order) : pick_(std::move(pick)), keeps_order_(keeps_order) {}

  void run(const std::array<std::function<void()>, 2>& actors) {
    std::vector<std::thread> threads;
    for (std::size_t actor = 0; actor < 2; ++actor)
      threads.emplace_back([&, actor] {
        self = actor;
        current = this;
        step();
        actors[actor]();
        const std::lock_guard lock(mutex_);
        done_[actor] = true;
        at_step_[actor] = false;
        turn_ = kNobody;
        changed_.notify_all();
      });
    std::unique_lock lock(mutex_);
    while (!(done_[0] && done_[1])) {
      changed_.wait(lock, [&] {
        return turn_ == kNobody && (done_[0] || at_step_[0]) && (done_[1] || at_step_[1]);
      });
      choose();
    }
    lock.unlock();
    for (std::thread& thread : threads) thread.join();
  }

 private:
  static constexpr std::size_t kNobody = 2;

  void choose() {
    std::vector<std::size_t> choices;  // an actor's step; behind those, what it has in its buffer
    for (std::size_t actor = 0; actor < 2; ++actor) {
      if (!done_[actor]) choices.push_back(actor);
      if (buffer_[actor]) choices.push_back(2 + actor);
    }
    if (choices.empty()) return;
    const std::size_t choice = choices[pick_(choices.size())];
    if (choice >= 2) return flush(choice - 2);
    at_step_[choice] = false;
    turn_ = choice;
    changed_.notify_all();
  }
  void step() {
    std::unique_lock lock(mutex_);
    at_step_[self] = true;
    if (turn_ == self) turn_ = kNobody;
    changed_.notify_all();
    changed_.wait(lock, [&] { return turn_ == self; });
  }
  void put(Word& word, std::uint64_t value) {
    step();
    flush(self);  // one at most waits
    buffer_[self] = {&word, value};
  }
  std::uint64_t get(const Word& word) {
    step();
    const auto& own = buffer_[self];
    return own && own->first == &word ? own->second : word.value_;
  }
  void flush(std::size_t actor) {
    if (buffer_[actor]) buffer_[actor]->first->value_ = buffer_[actor]->second;
    buffer_[actor].reset();
  }

  static thread_local std::size_t self;
  static thread_local StoreBuffers* current;

  const Pick pick_;
  const bool keeps_order_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<bool, 2> done_{}, at_step_{};
  std::array<std::optional<std::pair<Word*, std::uint64_t>>, 2> buffer_;
  std::size_t turn_ = kNobody;
};
thread_local std::size_t StoreBuffers::self = 0;
thread_local StoreBuffers* StoreBuffers::current = nullptr;

struct Orders {
  int tried = 0;
  int missed = 0;  ///< in which the receiver sleeps and nobody rings
  int rung = 0;
};

Orders try_every_order(bool keeps_order) {
  Orders orders;
  std::vector<std::pair<std::size_t, std::size_t>> path;  // chosen, of how many
  while (true) {
    std::size_t depth = 0;
    StoreBuffers::Word asleep, tail;
    bool sleeps = false, rings = false;
    StoreBuffers model(
        [&](std::size_t choices) {
          if (depth == path.size()) path.emplace_back(0, choices);
          return path[depth++].first;
        },
        keeps_order);
    model.run({[&] {
                 Doorbell::publish(tail, std::uint64_t{1});
                 rings = Doorbell::must_ring(asleep);
               },
               [&] { sleeps = Doorbell::announce_sleep(asleep, tail, std::uint64_t{0}); }});
    ++orders.tried;
    orders.missed += sleeps && !rings ? 1 : 0;
    orders.rung += rings ? 1 : 0;
    while (!path.empty() && path.back().first + 1 == path.back().second) path.pop_back();
    if (path.empty()) return orders;
    ++path.back().first;
  }
}

TEST(MessageRingTest, no_order_of_steps_leaves_a_sleeper_with_a_message) {
  const Orders orders = try_every_order(true);
  EXPECT_EQ(orders.missed, 0);
  EXPECT_GT(orders.rung, 0);
  EXPECT_LT(orders.rung, orders.tried);
  EXPECT_GT(try_every_order(false).missed, 0) << "which sequential consistency is for";
}

TEST(MessageRingTest, a_sleeper_is_woken_however_the_threads_meet) {
  constexpr int kRounds = 20'000;
  BothEnds ring;
  int bell[2];
  ASSERT_EQ(::pipe(bell), 0);
  std::atomic<int> taken{0};
  std::thread sender([&] {
    for (int i = 1; i <= kRounds; ++i) {
      while (!ring.sender.push({}, 0)) continue;
      if (ring.sender.must_ring()) {
        EXPECT_EQ(::write(bell[1], "", 1), 1);
      }
      if (i % 64 == 0) (void)run::eventually([&] { return taken.load() == i; });
    }
  });
  char bytes[256];
  for (int got = 0; got < kRounds;) {
    for (; ring.take(); ++got) taken.store(got + 1);
    if (got < kRounds && ring.receiver.announce_sleep()) {
      ASSERT_GT(::read(bell[0], bytes, sizeof bytes), 0);  // hangs, where a ring was missed
    }
  }
  sender.join();
  ::close(bell[0]);
  ::close(bell[1]);
}

}  // namespace
}  // namespace towpath::backends::shm
