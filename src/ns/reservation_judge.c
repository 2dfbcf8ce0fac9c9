/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which commands a reservation allows: NVMe Base 2.1, section 8.1.22.1, the table of command
 * behaviour in the presence of a reservation.
 *
 * Runs on the reactor of the command, with this reactor's view. Allocates, locks and writes
 * nothing. Not called for a namespace without a reservation. Reservation commands themselves are
 * checked by their rules (reservation.c).
 */
#include "ns/reservation.h"

/* Opcodes of commands that the table names. */
#define ADMIN_NS_MANAGEMENT 0x0d
#define ADMIN_NS_ATTACHMENT 0x15
#define ADMIN_FORMAT_NVM    0x80
#define ADMIN_SECURITY_SEND 0x81
#define ADMIN_SANITIZE      0x84
#define IO_VERIFY           0x0c
#define IO_COPY             0x19

enum reservation_group reservation_group_io(uint8_t opcode)
{
	switch (opcode) {
	case NVME_IO_READ:
	case NVME_IO_COMPARE:
	case NVME_IO_VERIFY:
		return RESERVATION_GROUP_READ;
	case NVME_IO_WRITE:
	case NVME_IO_FLUSH:
	case NVME_IO_WRITE_UNCORRECTABLE:
	case NVME_IO_WRITE_ZEROES:
	case NVME_IO_DATASET_MANAGEMENT:
	case NVME_IO_COPY:
		return RESERVATION_GROUP_WRITE;
	default:
		return RESERVATION_GROUP_NONE;
	}
}

enum reservation_group reservation_group_admin(uint8_t opcode)
{
	switch (opcode) {
	case ADMIN_NS_MANAGEMENT:
	case ADMIN_NS_ATTACHMENT:
	case ADMIN_FORMAT_NVM:
	case ADMIN_SECURITY_SEND:
	case ADMIN_SANITIZE:
	/* Set Features can set write protection, which would take away the holder's access. */
	case NVME_ADMIN_SET_FEATURES:
		return RESERVATION_GROUP_WRITE;
	default:
		return RESERVATION_GROUP_NONE;
	}
}

/* Whether the type excludes only writers. */
static bool type_lets_all_read(enum reservation_type type)
{
	return type == RESERVATION_WRITE_EXCLUSIVE ||
	       type == RESERVATION_WRITE_EXCLUSIVE_REGISTRANTS ||
	       type == RESERVATION_WRITE_EXCLUSIVE_ALL;
}

nvme_status reservation_judge(const struct reservation *reservation, const struct uuid *host_id,
			      enum reservation_group group)
{
	bool is_allowed;

	if (!reservation || !reservation_is_held(reservation) || group == RESERVATION_GROUP_NONE)
		return NVME_SC_SUCCESS;
	if (group == RESERVATION_GROUP_READ && type_lets_all_read(reservation->type))
		return NVME_SC_SUCCESS;
	if (reservation->type == RESERVATION_WRITE_EXCLUSIVE ||
	    reservation->type == RESERVATION_EXCLUSIVE_ACCESS)
		is_allowed = uuid_equal(&reservation->holder, host_id);
	else
		is_allowed = reservation_find(reservation, host_id) != NULL;
	return is_allowed ? NVME_SC_SUCCESS : nvme_status_dnr(NVME_SC_RESERVATION_CONFLICT);
}
