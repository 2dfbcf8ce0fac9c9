/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of opcodes for logs, metrics and tools. Pure; any thread.
 * NVMe Base 2.1, section 3.1.3.4 (admin and Fabrics); NVM Command Set 1.1, section 3 (I/O).
 */
#include "wire/nvme.h"

const char *nvme_admin_opcode_name(uint8_t opcode)
{
	switch (opcode) {
	case NVME_ADMIN_DELETE_SQ:
		return "Delete I/O Submission Queue";
	case NVME_ADMIN_CREATE_SQ:
		return "Create I/O Submission Queue";
	case NVME_ADMIN_GET_LOG_PAGE:
		return "Get Log Page";
	case NVME_ADMIN_DELETE_CQ:
		return "Delete I/O Completion Queue";
	case NVME_ADMIN_CREATE_CQ:
		return "Create I/O Completion Queue";
	case NVME_ADMIN_IDENTIFY:
		return "Identify";
	case NVME_ADMIN_ABORT:
		return "Abort";
	case NVME_ADMIN_SET_FEATURES:
		return "Set Features";
	case NVME_ADMIN_GET_FEATURES:
		return "Get Features";
	case NVME_ADMIN_ASYNC_EVENT:
		return "Asynchronous Event Request";
	case NVME_ADMIN_NS_MANAGEMENT:
		return "Namespace Management";
	case NVME_ADMIN_NS_ATTACHMENT:
		return "Namespace Attachment";
	case NVME_ADMIN_KEEP_ALIVE:
		return "Keep Alive";
	case NVME_ADMIN_CTRL_RESET:
		return "Cross-Controller Reset";
	case NVME_OPCODE_FABRICS:
		return "Fabrics";
	case NVME_ADMIN_FORMAT_NVM:
		return "Format NVM";
	default:
		return "unknown admin command";
	}
}

const char *nvme_io_opcode_name(uint8_t opcode)
{
	switch (opcode) {
	case NVME_IO_FLUSH:
		return "Flush";
	case NVME_IO_WRITE:
		return "Write";
	case NVME_IO_READ:
		return "Read";
	case NVME_IO_WRITE_UNCORRECTABLE:
		return "Write Uncorrectable";
	case NVME_IO_COMPARE:
		return "Compare";
	case NVME_IO_WRITE_ZEROES:
		return "Write Zeroes";
	case NVME_IO_DATASET_MANAGEMENT:
		return "Dataset Management";
	case NVME_IO_VERIFY:
		return "Verify";
	case NVME_IO_CANCEL:
		return "Cancel";
	case NVME_IO_COPY:
		return "Copy";
	case NVME_OPCODE_FABRICS:
		return "Fabrics";
	default:
		return "unknown I/O command";
	}
}
