// Slab: where a backend's memories of one type lie, each in a room that the next one takes over.
//
// A pool is thousands of registrations, which come and go together: asked for one by one, and given
// back, their memory took a fifth of what registering them did. Slab grow with the most that stood
// at once, as request progress and tables of them do, and go with the backend.
//
//   struct OwnMemory final : InSlab<OwnMemory, Memory> { ... };
//   std::unique_ptr<Memory> memory(new (rooms) OwnMemory(rooms, ...));   // deleted as ever
//
// Thread: as its backend.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace towpath::backend {

/// Must outlive what lies in it.
template <typename T>
class Slab {
 public:
  void* take() {
    if (kIsWatched) return ::operator new(sizeof(Room));
    if (free_ == nullptr) grow();
    Room* const taken = free_;
    free_ = taken->next;
    return taken;
  }
  void give_back(void* place) noexcept {
    if (kIsWatched) return ::operator delete(place);
    auto* const room = static_cast<Room*>(place);
    room->next = free_;
    free_ = room;
  }

 private:
  // With AddressSanitizer each has memory of its own, so that a touch of what has gone is seen.
#if defined(TOWPATH_ASAN)
  static constexpr bool kIsWatched = true;
#else
  static constexpr bool kIsWatched = false;
#endif

  union Room {
    Room* next;
    alignas(T) std::byte bytes[sizeof(T)];
  };

  void grow() {
    constexpr std::size_t kAtOnce = 32;
    Room* const fresh = all_.emplace_back(std::make_unique_for_overwrite<Room[]>(kAtOnce)).get();
    for (std::size_t i = kAtOnce; i-- > 0;) give_back(&fresh[i]);
  }

  std::vector<std::unique_ptr<Room[]>> all_;
  Room* free_ = nullptr;
};

/// A Base that lies in a room: T is made by `new (rooms) T`, and whoever deletes it, even as a
/// Memory, gives its room back.
template <typename T, typename Base>
class InSlab : public Base {
 public:
  static void* operator new(std::size_t, Slab<T>& slab) { return slab.take(); }
  static void operator delete(void* room, Slab<T>& slab) noexcept { slab.give_back(room); }
  static void operator delete(InSlab* self, std::destroying_delete_t) noexcept {
    Slab<T>& slab = self->slab_;
    T* const whole = static_cast<T*>(self);
    whole->~T();
    slab.give_back(whole);
  }

 protected:
  template <typename... Args>
  explicit InSlab(Slab<T>& slab, Args&&... args) : Base(std::forward<Args>(args)...), slab_(slab) {}

 private:
  Slab<T>& slab_;
};

}  // namespace towpath::backend
