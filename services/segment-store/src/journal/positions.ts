/**
 * A place in the journal as one integer double: file number and byte within the file.
 * Files are below 4 GiB, so two million files have room below 2^53.
 */
const FILE = 4294967296;
export const positionOf = (fileNumber: number, at: number): number => fileNumber * FILE + at;
export const fileOf = (position: number): number => Math.floor(position / FILE);
export const placeOf = (position: number): number => position % FILE;
