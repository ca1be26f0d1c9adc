/** The ids that follow from what they stand for. */
import { expect, test } from '@jest/globals';
import { v5, version } from 'uuid';
import { edgeKey, inputCardId, stepCardId } from '../../activities/ids.ts';

const NAMESPACE = '5b9f0b52-8c5e-4f0e-9d0f-0f6d0f8b7a11';

test('an id is the UUIDv5 of what the row stands for', () => {
  expect(stepCardId('turn', 3, 'thought')).toBe(v5('["card","turn",3,"thought",0]', NAMESPACE));
  expect(edgeKey('enqueue', 'request', 'ä "€" 🙂')).toBe(v5('["edge","enqueue","request","ä \\"€\\" 🙂"]', NAMESPACE));
  for (let index = 0; index < 200; index += 1) {
    const id = inputCardId('text', index);
    expect(version(id)).toBe(5);
    expect(id).toBe(v5(`["input","text",${index}]`, NAMESPACE));
  }
});
