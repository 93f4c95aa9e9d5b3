// What is told to strangers of a text that was made for whoever runs the node.
#pragma once

#include <string>
#include <string_view>

namespace peercache {

// The text without the places that it names: of an absolute path only the last part stays, and
// "..." stands for IP addresses, subnets, and hosts with a port. Pure.
std::string WithoutPlaces(std::string_view text);

}  // namespace peercache
