/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of status codes for logs and tools, as the specification spells them. Pure; any thread.
 * NVMe Base 2.1, section 4.2.3, tables of the generic, command specific, media and path types.
 */
#include "wire/status.h"

#include "base/check.h"

#include <stddef.h>

static const struct {
	nvme_status status;
	const char *name;
} status_names[] = {
	{{0x0}, "Successful Completion"},
	{{0x1}, "Invalid Command Opcode"},
	{{0x2}, "Invalid Field in Command"},
	{{0x3}, "Command ID Conflict"},
	{{0x4}, "Data Transfer Error"},
	{{0x5}, "Commands Aborted due to Power Loss Notification"},
	{{0x6}, "Internal Error"},
	{{0x7}, "Command Abort Requested"},
	{{0x8}, "Command Aborted due to SQ Deletion"},
	{{0x9}, "Command Aborted due to Failed Fused Command"},
	{{0xa}, "Command Aborted due to Missing Fused Command"},
	{{0xb}, "Invalid Namespace or Format"},
	{{0xc}, "Command Sequence Error"},
	{{0xd}, "Invalid SGL Segment Descriptor"},
	{{0xe}, "Invalid Number of SGL Descriptors"},
	{{0xf}, "Data SGL Length Invalid"},
	{{0x10}, "Metadata SGL Length Invalid"},
	{{0x11}, "SGL Descriptor Type Invalid"},
	{{0x14}, "Atomic Write Unit Exceeded"},
	{{0x15}, "Operation Denied"},
	{{0x16}, "SGL Offset Invalid"},
	{{0x18}, "Host Identifier Inconsistent Format"},
	{{0x19}, "Keep Alive Timer Expired"},
	{{0x1a}, "Keep Alive Timeout Invalid"},
	{{0x1b}, "Command Aborted due to Preempt and Abort"},
	{{0x20}, "Namespace is Write Protected"},
	{{0x21}, "Command Interrupted"},
	{{0x22}, "Transient Transport Error"},
	{{0x27}, "Host Identifier Not Initialized"},
	{{0x80}, "LBA Out of Range"},
	{{0x81}, "Capacity Exceeded"},
	{{0x82}, "Namespace Not Ready"},
	{{0x83}, "Reservation Conflict"},
	{{0x84}, "Format In Progress"},
	{{0x101}, "Invalid Queue Identifier"},
	{{0x103}, "Abort Command Limit Exceeded"},
	{{0x105}, "Asynchronous Event Request Limit Exceeded"},
	{{0x10a}, "Invalid Format"},
	{{0x109}, "Invalid Log Page"},
	{{0x10d}, "Feature Identifier Not Saveable"},
	{{0x10e}, "Feature Not Changeable"},
	{{0x10f}, "Feature Not Namespace Specific"},
	{{0x115}, "Namespace Insufficient Capacity"},
	{{0x116}, "Namespace Identifier Unavailable"},
	{{0x118}, "Namespace Already Attached"},
	{{0x119}, "Namespace Is Private"},
	{{0x11a}, "Namespace Not Attached"},
	{{0x11b}, "Thin Provisioning Not Supported"},
	{{0x11c}, "Controller List Invalid"},
	{{0x124}, "ANA Group Identifier Invalid"},
	{{0x125}, "ANA Attach Failed"},
	{{0x127}, "Namespace Attachment Limit Exceeded"},
	{{0x129}, "I/O Command Set Not Supported"},
	{{0x13f}, "Controller Reset In Progress"},
	{{0x140}, "Cross-Controller Reset Log Page Full"},
	{{0x141}, "Cross-Controller Reset Limit Exceeded"},
	{{0x180}, "Connect Incompatible Format"},
	{{0x181}, "Connect Controller Busy"},
	{{0x182}, "Connect Invalid Parameters"},
	{{0x183}, "Connect Restart Discovery"},
	{{0x184}, "Connect Invalid Host"},
	{{0x185}, "Invalid Queue Type"},
	{{0x186}, "Fast Copy Not Possible"},
	{{0x187}, "Overlapping I/O Range"},
	{{0x190}, "Discovery Restart"},
	{{0x191}, "Authentication Required"},
	{{0x280}, "Write Fault"},
	{{0x281}, "Unrecovered Read Error"},
	{{0x285}, "Compare Failure"},
	{{0x286}, "Access Denied"},
	{{0x300}, "Internal Path Error"},
	{{0x301}, "Asymmetric Access Persistent Loss"},
	{{0x302}, "Asymmetric Access Inaccessible"},
	{{0x303}, "Asymmetric Access Transition"},
	{{0x370}, "Host Pathing Error"},
	{{0x371}, "Command Aborted By Host"},
};

static const char *const type_names[] = {
	"unknown generic status", "unknown command specific status",
	"unknown media status",   "unknown path status",
	"unknown status",         "unknown status",
	"unknown status",         "vendor specific status",
};

const char *nvme_status_name(nvme_status status)
{
	for (size_t i = 0; i < ARRAY_LEN(status_names); i++) {
		if (nvme_status_same(status, status_names[i].status))
			return status_names[i].name;
	}
	return type_names[(status.value >> 8) & 7];
}

const char *nvme_io_status_name(nvme_status status)
{
	if (nvme_status_same(status, NVME_SC_SIZE_LIMIT))
		return "Command Size Limit Exceeded";
	if (nvme_status_same(status, NVME_SC_INVALID_CID))
		return "Invalid Command ID";
	if (nvme_status_same(status, NVME_SC_INCOMPATIBLE_NS))
		return "Incompatible Namespace or Format";
	return nvme_status_name(status);
}
