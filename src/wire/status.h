/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVMe completion status: a separate struct type, so that the compiler does not mix it with -errno.
 * NVMe Base 2.1, section 4.2.3. The value is status field bits 14:0 (without the phase tag): SC in
 * 7:0, SCT in 10:8, CRD in 12:11, M in bit 13, DNR in bit 14.
 */
#ifndef WEFT_WIRE_STATUS_H
#define WEFT_WIRE_STATUS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
	uint16_t value;
} nvme_status;

#define NVME_STATUS(sct, sc) ((nvme_status){(uint16_t)(((sct) << 8) | (sc))})
#define NVME_STATUS_M        (1u << 13)
#define NVME_STATUS_DNR      (1u << 14)

/* Generic command status. */
#define NVME_SC_SUCCESS                  NVME_STATUS(0, 0x00)
#define NVME_SC_INVALID_OPCODE           NVME_STATUS(0, 0x01)
#define NVME_SC_INVALID_FIELD            NVME_STATUS(0, 0x02)
#define NVME_SC_CID_CONFLICT             NVME_STATUS(0, 0x03)
#define NVME_SC_DATA_TRANSFER_ERROR      NVME_STATUS(0, 0x04)
#define NVME_SC_POWER_LOSS               NVME_STATUS(0, 0x05)
#define NVME_SC_INTERNAL                 NVME_STATUS(0, 0x06)
#define NVME_SC_ABORT_REQUESTED          NVME_STATUS(0, 0x07)
#define NVME_SC_ABORT_SQ_DELETION        NVME_STATUS(0, 0x08)
#define NVME_SC_FUSED_FAIL               NVME_STATUS(0, 0x09)
#define NVME_SC_FUSED_MISSING            NVME_STATUS(0, 0x0a)
#define NVME_SC_INVALID_NS               NVME_STATUS(0, 0x0b)
#define NVME_SC_CMD_SEQUENCE             NVME_STATUS(0, 0x0c)
#define NVME_SC_SGL_INVALID_SEGMENT      NVME_STATUS(0, 0x0d)
#define NVME_SC_SGL_INVALID_COUNT        NVME_STATUS(0, 0x0e)
#define NVME_SC_SGL_INVALID_DATA_LEN     NVME_STATUS(0, 0x0f)
#define NVME_SC_SGL_INVALID_METADATA_LEN NVME_STATUS(0, 0x10)
#define NVME_SC_SGL_INVALID_TYPE         NVME_STATUS(0, 0x11)
#define NVME_SC_ATOMIC_WRITE_UNIT        NVME_STATUS(0, 0x14) /* exceeded */
#define NVME_SC_OPERATION_DENIED         NVME_STATUS(0, 0x15)
#define NVME_SC_SGL_INVALID_OFFSET       NVME_STATUS(0, 0x16)
#define NVME_SC_HOST_ID_INCONSISTENT     NVME_STATUS(0, 0x18)
#define NVME_SC_KEEP_ALIVE_EXPIRED       NVME_STATUS(0, 0x19)
#define NVME_SC_KEEP_ALIVE_INVALID       NVME_STATUS(0, 0x1a)
#define NVME_SC_ABORT_PREEMPT            NVME_STATUS(0, 0x1b) /* Preempt and Abort */
#define NVME_SC_NS_WRITE_PROTECTED       NVME_STATUS(0, 0x20)
#define NVME_SC_COMMAND_INTERRUPTED      NVME_STATUS(0, 0x21)
#define NVME_SC_TRANSIENT_TRANSPORT      NVME_STATUS(0, 0x22)
#define NVME_SC_HOST_ID_MISSING          NVME_STATUS(0, 0x27) /* not initialized */
#define NVME_SC_LBA_RANGE                NVME_STATUS(0, 0x80)
#define NVME_SC_CAPACITY_EXCEEDED        NVME_STATUS(0, 0x81)
#define NVME_SC_NS_NOT_READY             NVME_STATUS(0, 0x82)
#define NVME_SC_RESERVATION_CONFLICT     NVME_STATUS(0, 0x83)
#define NVME_SC_FORMAT_IN_PROGRESS       NVME_STATUS(0, 0x84)

/* Command specific status. */
#define NVME_SC_INVALID_QID              NVME_STATUS(1, 0x01)
#define NVME_SC_ABORT_LIMIT              NVME_STATUS(1, 0x03)
#define NVME_SC_AER_LIMIT                NVME_STATUS(1, 0x05)
#define NVME_SC_INVALID_FORMAT           NVME_STATUS(1, 0x0a)
#define NVME_SC_INVALID_LOG_PAGE         NVME_STATUS(1, 0x09)
#define NVME_SC_FEATURE_NOT_SAVEABLE     NVME_STATUS(1, 0x0d)
#define NVME_SC_FEATURE_NOT_CHANGEABLE   NVME_STATUS(1, 0x0e)
#define NVME_SC_FEATURE_NOT_NS_SPECIFIC  NVME_STATUS(1, 0x0f)
#define NVME_SC_NS_INSUFFICIENT_CAPACITY NVME_STATUS(1, 0x15)
#define NVME_SC_NS_ID_UNAVAILABLE        NVME_STATUS(1, 0x16)
#define NVME_SC_NS_ALREADY_ATTACHED      NVME_STATUS(1, 0x18)
#define NVME_SC_NS_IS_PRIVATE            NVME_STATUS(1, 0x19)
#define NVME_SC_NS_NOT_ATTACHED          NVME_STATUS(1, 0x1a)
#define NVME_SC_THIN_NOT_SUPPORTED       NVME_STATUS(1, 0x1b)
#define NVME_SC_CTRL_LIST_INVALID        NVME_STATUS(1, 0x1c)
#define NVME_SC_ANA_GROUP_INVALID        NVME_STATUS(1, 0x24)
#define NVME_SC_ANA_ATTACH_FAILED        NVME_STATUS(1, 0x25)
#define NVME_SC_NS_ATTACHMENT_LIMIT      NVME_STATUS(1, 0x27)
#define NVME_SC_IO_SET_NOT_SUPPORTED     NVME_STATUS(1, 0x29)
#define NVME_SC_CTRL_RESET_IN_PROGRESS   NVME_STATUS(1, 0x3f)
#define NVME_SC_CTRL_RESET_LOG_FULL      NVME_STATUS(1, 0x40)
#define NVME_SC_CTRL_RESET_LIMIT         NVME_STATUS(1, 0x41)
/* Status of the NVM command set, which uses some numbers of Connect with another meaning. */
#define NVME_SC_SIZE_LIMIT            NVME_STATUS(1, 0x83) /* Command Size Limit Exceeded */
#define NVME_SC_INVALID_CID           NVME_STATUS(1, 0x84) /* Cancel that names itself */
#define NVME_SC_INCOMPATIBLE_NS       NVME_STATUS(1, 0x85)
#define NVME_SC_FAST_COPY_IMPOSSIBLE  NVME_STATUS(1, 0x86)
#define NVME_SC_OVERLAPPING_RANGE     NVME_STATUS(1, 0x87)
#define NVME_SC_CONNECT_FORMAT        NVME_STATUS(1, 0x80) /* incompatible format */
#define NVME_SC_CONNECT_BUSY          NVME_STATUS(1, 0x81)
#define NVME_SC_CONNECT_INVALID_PARAM NVME_STATUS(1, 0x82)
#define NVME_SC_CONNECT_RESTART_DISC  NVME_STATUS(1, 0x83)
#define NVME_SC_CONNECT_INVALID_HOST  NVME_STATUS(1, 0x84)
#define NVME_SC_INVALID_QUEUE_TYPE    NVME_STATUS(1, 0x85)
#define NVME_SC_DISCOVERY_RESTART     NVME_STATUS(1, 0x90)
#define NVME_SC_AUTH_REQUIRED         NVME_STATUS(1, 0x91)

/* Media and data integrity. */
#define NVME_SC_WRITE_FAULT      NVME_STATUS(2, 0x80)
#define NVME_SC_UNRECOVERED_READ NVME_STATUS(2, 0x81)
#define NVME_SC_COMPARE_FAILED   NVME_STATUS(2, 0x85)
#define NVME_SC_ACCESS_DENIED    NVME_STATUS(2, 0x86)

/* Path related. */
#define NVME_SC_INTERNAL_PATH_ERROR NVME_STATUS(3, 0x00)
#define NVME_SC_ANA_PERSISTENT_LOSS NVME_STATUS(3, 0x01)
#define NVME_SC_ANA_INACCESSIBLE    NVME_STATUS(3, 0x02)
#define NVME_SC_ANA_TRANSITION      NVME_STATUS(3, 0x03)
#define NVME_SC_HOST_PATHING_ERROR  NVME_STATUS(3, 0x70)
#define NVME_SC_HOST_ABORTED        NVME_STATUS(3, 0x71)

static inline bool nvme_status_is_ok(nvme_status status)
{
	return (status.value & 0x7ff) == 0;
}

/* Compares SCT and SC; ignores DNR, M and CRD. */
static inline bool nvme_status_same(nvme_status a, nvme_status b)
{
	return ((a.value ^ b.value) & 0x7ff) == 0;
}

/* Path Related Status: about the way to the namespace, not about the command. */
static inline bool nvme_status_is_path(nvme_status status)
{
	return (status.value >> 8 & 7) == 3;
}

static inline nvme_status nvme_status_dnr(nvme_status status)
{
	return (nvme_status){(uint16_t)(status.value | NVME_STATUS_DNR)};
}

/* For example "Invalid Field in Command"; never NULL. */
const char *nvme_status_name(nvme_status status);
/* For I/O commands of the NVM command set, where some numbers have another meaning. Never NULL. */
const char *nvme_io_status_name(nvme_status status);

#endif
