#pragma once
#include <cstdint>

/// The program's operator new: of the library's own requests the nth fails.  Requests of the test itself never do.
namespace kvc::fault {

/// While one lives, what its thread asks for is the library's.
class Inside {
 public:
  Inside();
  ~Inside();
  Inside(const Inside &) = delete;
  Inside &operator=(const Inside &) = delete;
};

/// Requests of the library since the program began, failed ones included.
uint64_t news_passed();
/// Its requests [nth, nth + count) from now on fail; count 0: none.
void news_arm(uint64_t nth, uint64_t count);
/// Blocks that were asked for in this program, by anybody, and not given back.
int64_t news_alive();

}  // namespace kvc::fault
