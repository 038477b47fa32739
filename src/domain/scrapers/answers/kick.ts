import {
  type Answers,
  count,
  flag,
  id,
  idNumber,
  isoTime,
  link,
  media,
  object,
  picture,
  type Shape,
  seconds,
  text,
  word,
} from './fields.ts'

const account: Shape = {
  id: idNumber('the account'),
  username: text('Name of the account', 'ExampleStreamer'),
  slug: word('Name in links', 'examplestreamer'),
  profile_picture: picture('Picture of the account'),
}

export const kick: Answers = {
  clip: {
    clip: object('The clip', {
      id: id('the clip', 'clip_01EXAMPLE000000000000001'),
      livestream_id: id('the stream'),
      category_id: id('the category', '15'),
      channel_id: idNumber('the channel'),
      user_id: idNumber('the account that made the clip'),
      title: text('Title of the clip', 'A good moment'),
      clip_url: media('Link to the video'),
      thumbnail_url: picture('Preview picture'),
      video_url: media('Link to the video'),
      privacy: word('Who may see it', 'CLIP_PRIVACY_PUBLIC'),
      likes: count('likes', 12),
      likes_count: count('likes', 12),
      views: count('views', 11_793),
      view_count: count('views', 11_793),
      duration: seconds('Length', 50),
      started_at: isoTime('When the part of the stream began'),
      created_at: isoTime('When the clip was made'),
      is_mature: flag('Whether it is for adults only', false),
      vod: object('The recorded stream', { id: id('the recording', '00000000-0000-4000-8000-000000000001') }),
      category: object('What was streamed', {
        id: idNumber('the category', 15),
        name: word('Name of the category', 'Just Chatting'),
        slug: word('Name in links', 'just-chatting'),
        responsive: picture('Picture of the category, in several sizes'),
        banner: link('Wide picture of the category', 'banner.jpg'),
        parent_category: word('Name of the group of categories', 'irl'),
      }),
      creator: object('Who made the clip', account),
      channel: object('Whose stream it is', account),
    }),
  },
}
