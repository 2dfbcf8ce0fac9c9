/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pieces of the document's reader that live in files of their own. Control thread only;
 * private to the control plane.
 */
#ifndef WEFT_CONFIG_CONFIG_PARSE_H
#define WEFT_CONFIG_CONFIG_PARSE_H

#include "config/config_json.h"

/* The words of enumerations, by their values. */
#define CONFIG_WRITE_PROTECTS (NS_WRITE_PROTECT_PERMANENT + 1)
extern const char *const config_write_protects[CONFIG_WRITE_PROTECTS];

/* A port with its defaults and this number, but no address. */
void config_port_init(struct config_port *port, uint16_t id);
/* Each reads one element at the cursor; what is wrong leaves an error and a usable struct. */
void config_subsystem_parse(struct config_cursor *at, const json_t *object,
			    struct config_subsystem *subsystem);
void config_ns_parse(struct config_cursor *at, const json_t *object, unsigned index,
		     struct config_ns *ns);
void config_port_parse(struct config_cursor *at, const json_t *object, unsigned index,
		       struct config_port *port);

void config_rights_parse(struct config_cursor *at, const json_t *object,
			 struct config_subsystem *subsystem);

void config_cluster_parse(struct config_cursor *at, const json_t *object, struct config *config);
void config_cluster_free(struct config_cluster *cluster);
/* As they stand in the document; NULL: out of memory. */
json_t *config_limits_to_json(const struct target_limits *limits);
json_t *config_cluster_to_json(const struct config_cluster *cluster);
/* Either may be NULL. */
bool config_cluster_same(const struct config_cluster *a, const struct config_cluster *b);
/* What clustered namespaces need. */
void config_cluster_check(struct config_cursor *at, const struct config *config);

/* What two elements may not share: names, NSIDs, files, ids, addresses; and names of nothing. */
void config_cross_check(struct config_cursor *at, const struct config *config);
/* The pool of one subsystem: its folder is its own, and its namespaces fit. */
void config_pool_check(struct config_cursor *at, const struct config *config, unsigned index);
/* Bytes of those namespaces of the document that lie in the subsystem's pool. */
uint64_t config_pool_used_bytes(const struct config_subsystem *subsystem);

/* A namespace and its subsystem. */
struct config_named_ns {
	const char *nqn;
	const struct config_ns *ns;
};

/* All namespaces, ascending UUID; the caller frees the list. NULL: out of memory. */
struct config_named_ns *config_named_list(const struct config *config, unsigned *ret_count);
/* The order of that list. */
int config_by_uuid(const void *a, const void *b);
bool config_nguid_is_nil(const uint8_t nguid[16]);
/* A random serial number. */
void config_serial_make(char ret_serial[NVME_SERIAL_BYTES + 1]);
/* Whether its data are gone after the next start: memory, and nothing at all. */
bool config_ns_is_volatile(const struct config_ns *ns);
/* What a medium is, whatever its options: a file's path, else the kind. The caller frees it. */
char *config_media_identity(const char *spec);
/* One file, or memory: the same data, however it is opened and however large it is. */
bool config_media_same(const char *a, const char *b);
/* The size that a spec names; 0: it names none. */
uint64_t config_media_bytes(const char *spec);
/* What it points at, not the struct itself. */
void config_subsystem_release(struct config_subsystem *subsystem);
/* The file under a medium, or NULL; the caller frees it. */
char *config_media_path(const char *spec);
/* The spec with another block=; the caller frees it. NULL: no spec, or no memory. */
char *config_media_with_block(const char *spec, uint32_t block_bytes);
/* Whether that file lies directly in the folder. */
bool config_path_in_folder(const char *path, const char *folder);
/* Would two listeners on these be in each other's way? */
bool config_addr_clash(const struct net_addr *a, const struct net_addr *b);

#endif
