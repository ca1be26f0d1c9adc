import { expect, test } from '@jest/globals';
import { framePlace } from '../../../activities/app/stack-frame.ts';

test.each([
  ['    at define (file:///app/my app.ts:12:5)', 'file:///app/my app.ts', '12'],
  ['    at async file:///app/a.ts:3:1', 'file:///app/a.ts', '3'],
  ['    at /app/a.ts:3:1', '/app/a.ts', '3'],
  ['    at define (C:\\app\\a.ts:12:5)', 'C:\\app\\a.ts', '12'],
  ['/app/a.ts:7', '/app/a.ts', '7'],
])('the place of %s', (frame, file, line) => {
  expect(framePlace(frame)).toEqual({ file, line });
});

test.each(['', '    at define (<anonymous>)', 'Error: no', '12:5'])('%j names no place', (frame) => {
  expect(framePlace(frame)).toBeNull();
});
