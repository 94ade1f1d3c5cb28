#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include <towpath/backend/backend.h>
#include <towpath/backend/rooms.h>

namespace towpath::backend {
namespace {

struct Counted final : InRoom<Counted, Memory> {
  Counted(Rooms<Counted>& rooms, int& how_many) : InRoom(rooms), count(how_many) { ++count; }
  ~Counted() override { --count; }
  int& count;
};

TEST(RoomsTest, what_goes_leaves_its_room_to_the_next_one) {
  Rooms<Counted> rooms;
  int count = 0;
  std::vector<std::unique_ptr<Memory>> all;
  for (int i = 0; i < 100; ++i) all.emplace_back(new (rooms) Counted(rooms, count));
  EXPECT_EQ(count, 100);
  const Memory* const gone = all[40].get();
  all[40].reset();
  EXPECT_EQ(count, 99);
  std::unique_ptr<Memory> next(new (rooms) Counted(rooms, count));
#if !defined(TOWPATH_ASAN)  // there each has a room of its own
  EXPECT_EQ(next.get(), gone);
#else
  (void)gone;
#endif
  all.clear();
  next.reset();
  EXPECT_EQ(count, 0);
}

}  // namespace
}  // namespace towpath::backend
