/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The default names of this host: the NQN and the identifier that nvme-cli keeps, or ones derived
 * from the machine's identity. Reads files: not for a reactor's thread.
 */
#ifndef WEFT_LIB_HOST_NAMES_H
#define WEFT_LIB_HOST_NAMES_H

#include "base/uuid.h"
#include "wire/nvme.h"

void host_names_nqn(char ret_nqn[NVME_NQN_BYTES]);
void host_names_id(struct uuid *ret_id);

#endif
