import {
  type Answers,
  count,
  flag,
  id,
  isoTime,
  link,
  list,
  media,
  mixed,
  number,
  object,
  picture,
  pictures,
  position,
  type Shape,
  seconds,
  size,
  text,
  unixTime,
  word,
} from './fields.ts'

const username = text('Name of the account', 'example')
const fullName = text('Name that is shown', 'Example Person')
const isVerified = flag('Whether the account is verified', false)
const isPrivate = flag('Whether the account is private', false)
const pictureOf = picture('Picture of the account')
const shortcode = id('the post in its link', 'EXAMPLEpost')
const postUrl = link('Link to the post', 'p/EXAMPLEpost')
const productType = word('Kind of post: clips are reels', 'clips')
const isPaid = flag('Whether it is a paid partnership', false)
const hasAudio = flag('Whether the video has sound', true)
const typeName = word('Kind of the entry', 'GraphVideo')
const mediaType = number('1 for a picture, 2 for a video, 8 for a series', 2)

const user: Shape = {
  pk: id('the account'),
  id: id('the account'),
  username,
  full_name: fullName,
  is_private: isPrivate,
  is_verified: isVerified,
  profile_pic_url: pictureOf,
}
const versions = {
  image_versions2: object('Pictures', { candidates: pictures('The picture in several sizes') }),
  video_versions: list('The video in several sizes', {
    url: media('Link to the video'),
    ...size,
    type: number('Number of the quality', 101),
  }),
  video_duration: seconds('Length', 72.1),
  has_audio: hasAudio,
}

const post: Shape = {
  id: id('the post and its author', '7000000000000000001_1000001'),
  pk: id('the post'),
  code: shortcode,
  url: postUrl,
  media_type: mediaType,
  product_type: productType,
  taken_at: unixTime('When the post was published'),
  caption: object('Text below the post', {
    pk: id('the text'),
    text: text('The text', 'A morning at the lake'),
    created_at: unixTime('When the text was written'),
  }),
  user: object('Who published the post', user),
  like_count: count('likes', 29),
  comment_count: count('comments', 7),
  play_count: count('plays', 2_647),
  ig_play_count: count('plays on Instagram alone', 2_643),
  display_uri: picture('Picture of the post'),
  is_paid_partnership: isPaid,
  ...versions,
}

const sound = object('Sound of the video', {
  artist_name: text('Name of the artist', 'Example Artist'),
  song_name: text('Title of the sound', 'Original audio'),
  uses_original_audio: flag('Whether the sound is that of the video', true),
  audio_id: id('the sound'),
})
const owner: Shape = {
  id: id('the account'),
  username,
  is_verified: isVerified,
  profile_pic_url: pictureOf,
}
const counted = (meaning: string, things: string, example: number) =>
  object(meaning, { count: count(things, example) })
const captionOf = object('Text below the post', {
  edges: list('The text', {
    node: object('The entry', { text: text('The text', 'A morning at the lake') }),
  }),
})
const graphPost: Shape = {
  __typename: typeName,
  id: id('the post'),
  shortcode,
  display_url: picture('Picture of the post'),
  thumbnail_src: picture('Small picture of the post'),
  is_video: flag('Whether the post is a video', true),
  video_url: media('Link to the video'),
  has_audio: hasAudio,
  product_type: productType,
  taken_at_timestamp: unixTime('When the post was published'),
  clips_music_attribution_info: sound,
  edge_media_to_caption: captionOf,
  edge_media_preview_like: counted('Likes', 'likes', 131),
}
const nextPosts = object('Whether there are more', {
  has_next_page: flag('Whether there are more', true),
  end_cursor: word('Position of the next ones', 'QVFCY2E4ZXhhbXBsZVBhZ2Uy'),
})

export const instagram: Answers = {
  'basic-profile': {
    pk: id('the account'),
    id: id('the account'),
    username,
    full_name: fullName,
    biography: text('What the account writes about itself', 'I take pictures of lakes'),
    is_private: isPrivate,
    is_verified: isVerified,
    is_business: flag('Whether it is an account of a business', false),
    follower_count: count('followers', 16_101),
    following_count: count('accounts that it follows', 617),
    media_count: count('posts', 409),
    total_clips_count: count('reels', 1),
    profile_pic_url: pictureOf,
    hd_profile_pic_url_info: object('Large picture', { url: picture('Link to the picture') }),
    account_type: number('1 personal, 2 business, 3 creator', 3),
    external_url: link('Link to the website', ''),
    bio_links: list('Links of the account', {
      title: text('Text of the link', 'My pictures'),
      url: link('Where the link leads', 'pictures'),
      link_type: word('Kind of the link', 'external'),
    }),
  },
  comments: {
    comments: list('Comments', {
      id: id('the comment'),
      text: text('Text of the comment', 'Where is this lake?'),
      created_at: isoTime('When the comment was written'),
      comment_like_count: count('likes', 2),
      child_comment_count: count('answers', 1),
      has_more_replies: flag('Whether there are more answers than `replies`', false),
      user: object('Who wrote the comment', { pk: id('the account'), ...owner }),
      replies: list('Answers', {
        id: id('the answer'),
        text: text('Text of the answer', 'In the north'),
        created_at: isoTime('When the answer was written'),
      }),
    }),
    cursor: position('eyJjYWNoZWRfY29tbWVudHMiOiJleGFtcGxlIn0='),
  },
  embed: {
    html: text('The card as HTML', '<blockquote class="instagram-media">Example Person</blockquote>'),
  },
  highlight: {
    id: id('the album', 'highlight:18000000000000001'),
    title: text('Title of the album', 'Lakes'),
    cover_media: object('Picture of the album', {
      media_id: id('the story that the picture is from'),
      cropped_image_version: object('The picture', { url: picture('Link to the picture'), ...size }),
    }),
    user: object('Whose album it is', user),
    items: list('Stories', {
      id: id('the story and its author', '7000000000000000001_1000001'),
      pk: id('the story'),
      code: shortcode,
      user: object('Who published the story', { id: id('the account'), username, full_name: fullName }),
      taken_at: unixTime('When the story was published'),
      media_type: mediaType,
      ...versions,
      original_width: size.width,
      original_height: size.height,
      is_paid_partnership: isPaid,
    }),
    created_at: unixTime('When the album was created'),
    media_count: count('stories', 25),
    latest_reel_media: unixTime('When the latest story was published'),
    seen: mixed('When the viewer saw it: null without an account', null),
    can_reply: flag('Whether stories can be answered', false),
    can_gif_quick_reply: flag('Whether stories can be answered with a picture', true),
    can_reshare: flag('Whether stories can be shared', true),
  },
  highlights: {
    highlights: list('Albums', {
      id: id('the album, for highlight', '18000000000000001'),
      title: text('Title of the album', 'Lakes'),
      cover_media: object('Picture of the album', { thumbnail_src: picture('Link to the picture') }),
      cover_media_cropped_thumbnail: object('Small picture', { url: picture('Link to the picture') }),
      owner: object('Whose album it is', { id: id('the account'), username, profile_pic_url: pictureOf }),
    }),
  },
  post: {
    data: object('The answer of the platform', {
      xdt_shortcode_media: object('The post', {
        ...graphPost,
        video_view_count: count('views', 2_000),
        video_play_count: count('plays', 425_901),
        video_duration: seconds('Length', 84.666),
        is_ad: flag('Whether the post is an advertisement', false),
        is_paid_partnership: isPaid,
        owner: object('Who published the post', {
          ...owner,
          full_name: fullName,
          is_private: isPrivate,
          edge_owner_to_timeline_media: counted('Posts of the account', 'posts', 1_599),
          edge_followed_by: counted('Followers of the account', 'followers', 1_565_363),
        }),
        edge_media_to_parent_comment: object('Comments that are shown', {
          count: count('comments', 299),
          page_info: nextPosts,
          edges: list('Comments', {
            node: object('The comment', {
              id: id('the comment'),
              text: text('Text of the comment', 'Where is this lake?'),
              created_at: unixTime('When the comment was written'),
              owner: object('Who wrote the comment', owner),
              edge_liked_by: counted('Likes', 'likes', 3),
            }),
          }),
        }),
        edge_sidecar_to_children: object('Parts of a series', {
          edges: list('Parts', {
            node: object('The part', {
              __typename: typeName,
              id: id('the part'),
              display_url: picture('Picture of the part'),
              is_video: flag('Whether the part is a video', false),
            }),
          }),
        }),
      }),
    }),
  },
  posts: {
    items: list('Posts, the newest first', post),
    num_results: count('posts in this answer', 12),
    more_available: flag('Whether there is another page', true),
    next_max_id: position('7000000000000000001_1000001'),
    user: object('Whose posts they are', user),
  },
  profile: {
    data: object('The answer of the platform', {
      user: object('The account', {
        id: id('the account'),
        fbid: id('the account on Facebook'),
        username,
        full_name: fullName,
        biography: text('What the account writes about itself', 'I take pictures of lakes'),
        bio_links: list('Links of the account', {
          title: text('Text of the link', 'My pictures'),
          url: link('Where the link leads', 'pictures'),
          link_type: word('Kind of the link', 'external'),
        }),
        external_url: link('Link to the website', ''),
        category_name: word('What the account is about', 'Photographer'),
        edge_followed_by: counted('Followers', 'followers', 24_555),
        edge_follow: counted('Accounts that it follows', 'accounts', 110),
        is_private: isPrivate,
        is_verified: isVerified,
        is_business_account: flag('Whether it is an account of a business', true),
        is_professional_account: flag('Whether it is an account of a business or creator', true),
        profile_pic_url: pictureOf,
        profile_pic_url_hd: picture('Large picture of the account'),
        edge_owner_to_timeline_media: object('Latest posts', {
          count: count('posts of the account', 90),
          page_info: nextPosts,
          edges: list('Posts', {
            node: object('The post', {
              ...graphPost,
              dimensions: object('Size of the post', size),
              video_view_count: count('views', 1_870),
              edge_media_to_comment: counted('Comments', 'comments', 14),
              edge_liked_by: counted('Likes', 'likes', 131),
              owner: object('Who published the post', { id: id('the account'), username }),
            }),
          }),
        }),
        edge_related_profiles: object('Similar accounts', {
          edges: list('Accounts', {
            node: object('The account', { ...owner, full_name: fullName, is_private: isPrivate }),
          }),
        }),
      }),
    }),
  },
  reels: {
    items: list('Reels, the newest first', { media: object('The reel', post) }),
    paging_info: object('Whether there are more', {
      max_id: position('QVFCVzZleGFtcGxlUGFnZTI='),
      more_available: flag('Whether there is another page', true),
    }),
  },
  'reels-search': {
    reels: list('Reels', {
      id: id('the reel'),
      shortcode,
      url: link('Link to the reel', 'reel/EXAMPLEpost'),
      caption: text('Text below the reel', 'My dog at the lake'),
      taken_at: isoTime('When the reel was published'),
      video_url: media('Link to the video'),
      thumbnail_src: picture('Preview picture'),
      video_duration: seconds('Length', 75.7),
      video_view_count: count('views', 21_808),
      video_play_count: count('plays', 46_018),
      like_count: count('likes', 3_487),
      comment_count: count('comments', 90),
      is_paid_partnership: isPaid,
      clips_music_attribution_info: sound,
      owner: object('Who published the reel', {
        ...owner,
        full_name: fullName,
        is_private: isPrivate,
        follower_count: count('followers', 188_406),
        post_count: count('posts', 117),
      }),
      location: object('Where the reel was made', {
        id: id('the place'),
        name: text('Name of the place', 'Example Park'),
        slug: word('Name in links', 'example-park'),
      }),
      comments: list('Some comments', {
        id: id('the comment'),
        text: text('Text of the comment', 'A good dog'),
        like_count: count('likes', 1),
        created_at: isoTime('When the comment was written'),
        owner: object('Who wrote the comment', owner),
      }),
    }),
  },
  transcript: {
    transcripts: list('One text for each video', {
      id: id('the post'),
      shortcode,
      text: text('What is said', 'Today we walk around the lake'),
    }),
  },
}
