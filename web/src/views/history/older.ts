// Which rounds are listed: so many of the newest, or of those before one.
export interface Listed {
  most: number;
  before: string | null;
}

const MORE = 50;
const MOST = 1_000; // in one answer
export const NEWEST: Listed = { most: 12, before: null };

// `next`: the last of the rounds that are listed.
export const older = ({ most, before }: Listed, next: string): Listed =>
  most < MOST ? { most: Math.min(most + MORE, MOST), before } : { most: MORE, before: next };
