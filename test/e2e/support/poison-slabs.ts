/**
 * Loaded into every process of a test cluster (`--import`): memory that links read into again is overwritten first. Whoever still used it fails its
 * checksums or its comparison, instead of being lucky.
 */
import { slabPool } from "@sluice/link";

slabPool.poisonFreed();
